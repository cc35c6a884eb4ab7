"""A prompt: lines typed on a terminal, with a history and completion with the tab key.

History is stored in the user's state directory, one file for each kind of prompt, readable by its
owner only. Lines that mention a key, a password or a token are not stored.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any

import platformdirs

from strandline.errors import StrandlineError
from strandline.store import Store

HISTORY_VARIABLE = "STRANDLINE_HISTORY"
_HISTORY_MAX = 1000
_LEAVE = {"exit", "quit", "\\q"}
_SECRET = re.compile(r"\b(key|password|token)\b", re.IGNORECASE)
_WORD_ENDS = " \t\n\"'`@$><=;|&{}()[],"


class Prompt:
    """Reads commands from a terminal. Owned by one thread; use it as a context manager.

    ``is_whole`` returns whether lines are a complete command.
    """

    def __init__(self, name: str, words: Sequence[str], is_whole: Callable[[str], bool]) -> None:
        self._name = name
        self._words = sorted(set(words))
        self._is_whole = is_whole
        self._readline = _readline()
        self._path = _history_path(name)

    def __enter__(self) -> Prompt:
        if self._readline is not None:
            self._readline.set_auto_history(False)
            self._readline.set_completer_delims(_WORD_ENDS)
            self._readline.set_completer(self._complete)
            self._readline.parse_and_bind("tab: complete")
            with contextlib.suppress(OSError):
                self._readline.read_history_file(self._path)
        return self

    def __exit__(self, *_: object) -> None:
        if self._readline is None:
            return
        self._readline.set_completer(None)
        self._readline.set_history_length(_HISTORY_MAX)
        with contextlib.suppress(OSError):  # the history is not worth an error
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
            os.close(os.open(self._path, os.O_CREAT | os.O_WRONLY, 0o600))
            self._readline.write_history_file(self._path)
            os.chmod(self._path, 0o600)

    def commands(self) -> Iterator[str]:
        """Commands until the terminal is closed or the input is ``exit``, ``quit`` or ``\\q``."""
        lines = ""
        while True:
            try:
                line = input("...> " if lines else f"{self._name}> ")
            except EOFError:
                print()
                return
            except KeyboardInterrupt:
                print()
                lines = ""
                continue
            lines = f"{lines}\n{line}" if lines else line
            if not lines.strip():
                lines = ""
            elif lines.strip().rstrip(";").lower() in _LEAVE:
                return
            elif self._is_whole(lines):
                self._add_to_history(lines)
                yield lines.strip().rstrip(";").rstrip()
                lines = ""

    def _add_to_history(self, text: str) -> None:
        if self._readline is not None and not _SECRET.search(text):
            self._readline.add_history(" ".join(text.split()))

    def _complete(self, prefix: str, number: int) -> str | None:
        """The nth word with this prefix; keywords in lower case if the prefix is."""
        matches = [word for word in self._words if word.lower().startswith(prefix.lower())]
        if number >= len(matches):
            return None
        word = matches[number]
        return word.lower() if prefix.islower() and word.isupper() else word


def names_in(store: Store) -> list[str]:
    """Names to complete; none when listing them fails."""
    try:
        return store.topics()
    except StrandlineError:
        return []


def _history_path(name: str) -> str:
    folder = os.environ.get(HISTORY_VARIABLE) or platformdirs.user_state_dir("strandline")
    return os.path.join(folder, f"history-{name}")


def _readline() -> Any:
    """The module ``readline``, None where Python lacks it."""
    try:
        return import_module("readline")
    except ImportError:
        return None
