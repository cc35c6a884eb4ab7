"""How deep JSON of strangers may be nested, and how long its numbers may be. Pure.

What we store we keep as it was sent, so whoever reads it later must be able to: a parser that
recurses, or that turns digits into a number, is brought down by a small body. Both checks run at
the speed of memory: whatever cannot be too deep or too long is passed without being looked at
closely.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from strandline.errors import Invalid

NUMBER_SIZE_MAX = 1000
"""Digits in a row that a number may have."""

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
    """Raise when JSON is nested too deep, has an endless number, or is not UTF-8."""
    if not text.isascii():
        check_text(text)
    if text.count(b"{") + text.count(b"[") > depth_max:
        _check_depth(text, depth_max)
    if len(text) > NUMBER_SIZE_MAX:
        _check_numbers(text)


def are_plain(text: bytes, longest: int, depth_max: int) -> bool:
    """Whether ``check_json`` has surely nothing against any value in a text, the longest of which
    has so many bytes: a value that is too deep has its brackets close together."""
    if longest > NUMBER_SIZE_MAX or not text.isascii():
        return False
    openings = np.flatnonzero((np.frombuffer(text, "u1") & 0xDF) == 0x5B)  # [ and {
    if len(openings) <= depth_max:
        return True
    return bool((openings[depth_max:] - openings[: len(openings) - depth_max]).min() > longest)


def check_text(text: bytes) -> None:
    """Raise when bytes are not UTF-8: a JSON parser that skips values does not look."""
    try:
        text.decode()
    except UnicodeDecodeError as error:
        raise Invalid(f"this is not UTF-8 at byte {error.start}: encode it, or send base64") from (
            error
        )


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
    """The bytes that are in no text, chunk by chunk, with a quote at the end of each text."""
    is_inside = False
    every = np.frombuffer(text, "u1")
    for start in range(0, len(every), _CHUNK_SIZE):
        chunk = every[start : start + _CHUNK_SIZE]
        inside = np.logical_xor.accumulate(chunk == _QUOTE) ^ is_inside
        yield chunk[~inside]
        is_inside = bool(inside[-1])


def _without_escapes(text: bytes) -> bytes:
    """The same without quotes inside texts. Backslashes are only in texts, and come in pairs
    unless they escape something."""
    return text.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in text else text
