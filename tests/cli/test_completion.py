"""Promise: shells can complete our commands, and the script is installed where asked."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.cli.conftest import Command, Program


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_knows_commands_and_options(command: Command, shell: str):
    answer = command("completion", shell)

    assert answer.code == 0
    for word in ("topic", "append", "durability", "context"):
        assert word in answer.out


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes_a_command(command: Command, tmp_path):
    script = tmp_path / "complete.bash"
    script.write_text(command("completion", "bash").out)
    ask = "COMP_WORDS=(strandline topi); COMP_CWORD=1; _strandline; echo ${COMPREPLY[@]}"

    shown = subprocess.run(
        ["bash", "-c", f"source {script}; {ask}"], capture_output=True, text=True, check=False
    )

    assert shown.stdout.split() == ["topic"], shown.stderr


def test_it_is_installed_for_the_shell(program: Program, tmp_path):
    program.environment |= {"HOME": str(tmp_path), "SHELL": "/bin/bash"}

    answer = program.run("--install-completion")

    assert answer.code == 0, answer.err
    assert list(tmp_path.rglob("strandline"))
