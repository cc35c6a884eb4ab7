"""``strandline completion``: the script with which a shell completes commands and options."""

from __future__ import annotations

import sys
from typing import Literal

from strandline.cli.program import make_app

Shell = Literal["bash", "zsh", "fish"]


def completion(shell: Shell, /) -> None:
    """Print the completion script for bash, zsh or fish.

    Example: `source <(strandline completion bash)`. `strandline --install-completion` installs it.

    Parameters
    ----------
    shell
        bash, zsh or fish.
    """
    sys.stdout.write(make_app().generate_completion(prog_name="strandline", shell=shell))
