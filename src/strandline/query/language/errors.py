"""Query errors: the message, the place in the text, and a hint. Pure.

line 2, column 7: pay has no field 'amuont'
  WHERE amuont > 5
        ^
  did you mean 'amount'?
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from strandline.errors import Invalid

_SHOWN_BEFORE, _SHOWN_AFTER = 60, 40
"""Characters of a long line that are shown around the place."""
_NEAR = 0.6
"""The similarity, from 0 to 1, from which a word is suggested for another."""


class QueryError(Invalid):
    """A query error: a command or SQL text is wrong, mostly at a known place. Fix it there."""

    def __init__(self, message: str, text: str, at: int, *, hint: str = "") -> None:
        """``at`` is an offset in the text; below 0 the place is unknown."""
        self.message = message
        self.text = text
        self.at = at
        self.hint = hint
        self.line, self.column = _place(text, at) if at >= 0 else (0, 0)
        super().__init__(self._formatted())

    def __reduce__(self) -> tuple[object, ...]:
        return _unpickled, (self.message, self.text, self.at, self.hint)

    def _formatted(self) -> str:
        if self.at < 0:
            return f"{self.message}; {self.hint}" if self.hint else self.message
        shown, mark = _pointer(self.text, self.line, self.column)
        text = f"line {self.line}, column {self.column}: {self.message}\n  {shown}\n  {mark}"
        return f"{text}\n  {self.hint}" if self.hint else text


def nearest_word(word: str, known: Iterable[str]) -> str:
    """The known word most similar to ``word``, "" when none is similar enough."""
    by_lowercase = {each.lower(): each for each in known}
    matches = difflib.get_close_matches(word.lower(), by_lowercase, n=1, cutoff=_NEAR)
    return by_lowercase[matches[0]] if matches else ""


def did_you_mean(word: str, known: Sequence[str], *, called: str = "") -> str:
    """A hint: the most similar known word, else all known words after ``called``."""
    nearest = nearest_word(word, known)
    if nearest:
        return f"did you mean {nearest!r}?"
    if not known or not called:
        return ""
    return f"{called}: {join_words(known, 'and')}"


def join_words(words: Sequence[str], joint: str = "or", *, count_max: int = 30) -> str:
    """Words joined with commas, and with ``joint`` before the last."""
    if len(words) > count_max:
        return f"{', '.join(words[:count_max])} {joint} {len(words) - count_max} more"
    *others, last = words
    return f"{', '.join(others)} {joint} {last}" if others else last


def _unpickled(message: str, text: str, at: int, hint: str) -> QueryError:
    """Unpickle an error: errors are sent between processes."""
    return QueryError(message, text, at, hint=hint)


def _place(text: str, at: int) -> tuple[int, int]:
    """Line and column, both from 1."""
    before = text[:at]
    return before.count("\n") + 1, len(before) - before.rfind("\n")


def _pointer(text: str, line: int, column: int) -> tuple[str, str]:
    """The line, or the part around the place when it is long, and a mark below the place."""
    whole = text.split("\n")[line - 1]
    first = max(0, column - 1 - _SHOWN_BEFORE)
    shown = whole[first : column + _SHOWN_AFTER].expandtabs(1).rstrip()
    return _visible(shown), " " * (column - 1 - first) + "^"


def _visible(line: str) -> str:
    """A line without characters that would move the mark or control the terminal."""
    return "".join(char if char.isprintable() else " " for char in line)
