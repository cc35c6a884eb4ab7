"""Errors in a command: where they are, what was expected, and what may have been meant. Pure.

line 2, column 7: pay has no field 'amuont'
  WHERE amuont > 5
        ^
  did you mean 'amount'?
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from strandline.errors import Invalid

_SHOWN_BEFORE, _SHOWN_BEHIND = 60, 40
"""Characters of a long line around the place."""
_NEAR = 0.6
"""How alike two words must be, from 0 to 1, to be taken for each other."""


class Mistake(Invalid):
    """A command that is wrong at a place. Fix its text there."""

    def __init__(self, message: str, text: str, at: int, *, hint: str = "") -> None:
        """``at`` is an offset in the text; below 0 the place is not known."""
        self.message = message
        self.text = text
        self.at = at
        self.hint = hint
        self.line, self.column = _place(text, at) if at >= 0 else (0, 0)
        super().__init__(self._told())

    def __reduce__(self) -> tuple[object, ...]:
        return _again, (self.message, self.text, self.at, self.hint)

    def _told(self) -> str:
        if self.at < 0:
            return f"{self.message}; {self.hint}" if self.hint else self.message
        shown, mark = _pointer(self.text, self.line, self.column)
        told = f"line {self.line}, column {self.column}: {self.message}\n  {shown}\n  {mark}"
        return f"{told}\n  {self.hint}" if self.hint else told


def near(word: str, known: Iterable[str]) -> str:
    """The known word that was probably meant, "" when none is near."""
    by_small = {each.lower(): each for each in known}
    found = difflib.get_close_matches(word.lower(), by_small, n=1, cutoff=_NEAR)
    return by_small[found[0]] if found else ""


def did_you_mean(word: str, known: Sequence[str], *, called: str = "") -> str:
    """A hint: the word that was probably meant, else the words there are."""
    meant = near(word, known)
    if meant:
        return f"did you mean {meant!r}?"
    if not known or not called:
        return ""
    return f"{called}: {told(known, 'and')}"


def told(words: Sequence[str], joint: str = "or", *, count_max: int = 30) -> str:
    """Words as people list them."""
    if len(words) > count_max:
        return f"{', '.join(words[:count_max])} {joint} {len(words) - count_max} more"
    *others, last = words
    return f"{', '.join(others)} {joint} {last}" if others else last


def _again(message: str, text: str, at: int, hint: str) -> Mistake:
    """Errors may cross a process."""
    return Mistake(message, text, at, hint=hint)


def _place(text: str, at: int) -> tuple[int, int]:
    """Line and column, both from 1."""
    before = text[:at]
    return before.count("\n") + 1, len(before) - before.rfind("\n")


def _pointer(text: str, line: int, column: int) -> tuple[str, str]:
    """The line, or what is around the place when it is long, and a mark below the place."""
    whole = text.split("\n")[line - 1]
    first = max(0, column - 1 - _SHOWN_BEFORE)
    shown = whole[first : column + _SHOWN_BEHIND].expandtabs(1).rstrip()
    return _visible(shown), " " * (column - 1 - first) + "^"


def _visible(line: str) -> str:
    """A line without what would move the mark or the terminal."""
    return "".join(char if char.isprintable() else " " for char in line)
