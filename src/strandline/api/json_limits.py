"""Limits the nesting depth and the length of numbers in untrusted JSON. Pure.

JSON is stored as it was sent, so every later reader must be able to parse it: a small body can
crash a parser that recurses, or that converts digits to a number. Both checks run at the speed of
memory: a text that cannot be too deep or have too long a number passes without a closer check.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from strandline.errors import Invalid

NUMBER_SIZE_MAX = 1000
"""Most digits in a row of a number."""

_BRACKETS = b"[]{}"
_NOT_STRUCTURE = bytes(set(range(256)) - set(b'"[]{}'))
_DIGITS_ALIKE = bytes.maketrans(b"123456789", b"000000000")
_TOO_MANY_DIGITS = b"0" * (NUMBER_SIZE_MAX + 1)
_QUOTE = ord('"')
_CHUNK_SIZE = 1 << 20
_STEPS = np.zeros(256, "i1")
_STEPS[list(b"[{")] = 1
_STEPS[list(b"]}")] = -1


def check_json(text: bytes, depth_max: int) -> None:
    """Raise Invalid when JSON is nested too deep, has too long a number, or is not UTF-8."""
    if not text.isascii():
        check_text(text)
    if text.count(b"{") + text.count(b"[") > depth_max:
        _check_depth(text, depth_max)
    if len(text) > NUMBER_SIZE_MAX:
        _check_numbers(text)


def certainly_accepts(text: bytes, longest: int, depth_max: int) -> bool:
    """Whether ``check_json`` certainly accepts every value in a text; ``longest`` is the size of
    the longest value in bytes. A value that is too deep has its brackets close together."""
    if longest > NUMBER_SIZE_MAX or not text.isascii():
        return False
    openings = np.flatnonzero((np.frombuffer(text, "u1") & 0xDF) == 0x5B)  # [ and {
    if len(openings) <= depth_max:
        return True
    return bool((openings[depth_max:] - openings[: len(openings) - depth_max]).min() > longest)


def check_text(text: bytes) -> None:
    """Raise Invalid when bytes are not UTF-8: a JSON parser that skips values does not check it."""
    try:
        text.decode()
    except UnicodeDecodeError as error:
        raise Invalid(f"not UTF-8 at byte {error.start}: encode it, or send base64") from error


def _check_depth(text: bytes, depth_max: int) -> None:
    depth = 0
    for outside in _outside(_without_escapes(text).translate(None, _NOT_STRUCTURE)):
        depths = np.cumsum(_STEPS[outside], dtype="i4")
        if len(depths):
            if depth + depths.max() > depth_max:
                raise Invalid(
                    f"JSON is nested deeper than {depth_max} (json_depth_max): flatten it"
                )
            depth += int(depths[-1])


def _check_numbers(text: bytes) -> None:
    if _TOO_MANY_DIGITS not in text.translate(_DIGITS_ALIKE):
        return
    outside = b"".join(part.tobytes() for part in _outside(_without_escapes(text)))
    if _TOO_MANY_DIGITS in outside.translate(_DIGITS_ALIKE):
        raise Invalid(f"a number has over {NUMBER_SIZE_MAX} digits in a row: send it as text")


def _outside(text: bytes) -> Iterator[np.ndarray]:
    """The bytes outside strings, chunk by chunk, with a quote at the end of each string."""
    is_inside = False
    every = np.frombuffer(text, "u1")
    for start in range(0, len(every), _CHUNK_SIZE):
        chunk = every[start : start + _CHUNK_SIZE]
        inside = np.logical_xor.accumulate(chunk == _QUOTE) ^ is_inside
        yield chunk[~inside]
        is_inside = bool(inside[-1])


def _without_escapes(text: bytes) -> bytes:
    """The text without escaped quotes. Backslashes occur only in strings, and in pairs unless they
    escape a character."""
    return text.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in text else text
