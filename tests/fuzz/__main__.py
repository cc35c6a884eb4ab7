"""Looks for inputs that break a target, guided by coverage: ``python -m tests.fuzz TARGET``.

    python -m tests.fuzz sql --seconds 60     one target
    python -m tests.fuzz --seconds 20         all of them, one after the other
    python -m tests.fuzz --seconds 0          until each has had ``--inputs`` inputs

New inputs are kept in ``.fuzz/TARGET``; one that breaks a target is there, too, as ``crash-…``.
Needs atheris (``pip install -e '.[fuzz]'``), which has no wheel for every version of Python.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from tests.campaigns import FUZZ_INPUTS
from tests.fuzz.targets import CORPUS, INSTRUMENTED, NAMES, corpus_of, target_of


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("target", nargs="?", choices=NAMES)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--inputs", type=int, default=FUZZ_INPUTS)
    given = parser.parse_args()
    try:
        import atheris
    except ImportError:
        print("atheris is not installed: nothing is fuzzed, the corpus is replayed by make test")
        return 0
    if given.target is None:
        command = [sys.executable, "-m", "tests.fuzz", "--seconds", str(given.seconds)]
        command += ["--inputs", str(given.inputs)]
        return max([subprocess.run([*command, name], check=False).returncode for name in NAMES])
    packages = sorted({name.partition(".")[0] for name in INSTRUMENTED[given.target]})
    with atheris.instrument_imports(include=packages, exclude=_excluded(given.target)):
        check = target_of(given.target).check
    _fuzz(atheris, check, given.target, given.seconds, given.inputs)
    return 0


def _excluded(name: str) -> list[str]:
    """The modules of the library that do not guide this target: atheris includes whole packages."""
    source = Path(__file__).parents[2] / "src"
    paths = [path.relative_to(source).with_suffix("") for path in source.rglob("*.py")]
    modules = [".".join(path.parts).removesuffix(".__init__") for path in paths]
    return [module for module in modules if not module.startswith(INSTRUMENTED[name])]


def _fuzz(atheris, check, name: str, seconds: int, inputs: int) -> None:
    found = Path(".fuzz") / name
    found.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(corpus_of(name)):
        (found / f"seed-{number}").write_bytes(data)
    options = [
        f"-max_total_time={seconds}",
        f"-runs={inputs}",
        f"-artifact_prefix={found}/",
        "-max_len=4096",
        "-timeout=20",
        "-rss_limit_mb=2048",
        "-print_final_stats=1",
        "-verbosity=0",
    ]
    atheris.Setup([sys.argv[0], *options, str(found), *_known(name)], check)
    atheris.Fuzz()


def _known(name: str) -> list[str]:
    folder = CORPUS / name
    return [str(folder)] if folder.is_dir() else []


if __name__ == "__main__":
    sys.exit(main())
