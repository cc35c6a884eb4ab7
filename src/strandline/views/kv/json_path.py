"""Paths in JSON documents, such as ``$.orders[0].price``. Pure.

    $          the whole document
    .name      a field of an object; a name of letters, digits, _ and -
    ["name"]   a field with any name, as JSON text
    [2]        an element of an array from 0; from the end when negative

Setting a field creates it, but not its parent, which must exist. An array element is created only
directly after the last one.
"""

from __future__ import annotations

import re
from functools import lru_cache

import msgspec

from strandline.errors import Invalid, NotFound

Step = str | int
_ABSENT = object()
_STEP = re.compile(r"\.([A-Za-z0-9_-]+)|\[(-?[0-9]+)\]|\[(\"(?:[^\"\\]|\\.)*\")\]")


def encode(document: object) -> bytes:
    try:
        return msgspec.json.encode(document)
    except (TypeError, ValueError) as error:
        raise Invalid(f"the value cannot be encoded as JSON: {error}") from error


def decode(data: bytes) -> object:
    """The document; ValueError if the bytes are not JSON."""
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from error


def parse(path: str) -> tuple[Step, ...]:
    """The steps of a path."""
    if type(path) is not str or not path.startswith("$"):
        raise Invalid(f"{path!r} is not a JSON path: begin with $, as in $.name[0]")
    return _parse(path)


@lru_cache(maxsize=1024)
def _parse(path: str) -> tuple[Step, ...]:
    steps: list[Step] = []
    at = 1
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None:
            raise Invalid(f"{path!r} is not a JSON path: cannot read {path[at:]!r}")
        name, index, quoted = step.groups()
        if index is not None:
            steps.append(int(index))
        else:
            steps.append(name if quoted is None else _name(path, quoted))
        at = step.end()
    return tuple(steps)


def value_at(document: object, path: str, default: object) -> object:
    """The value at a path, the default if there is none."""
    for step in parse(path):
        document = _at(document, step)
        if document is _ABSENT:
            return default
    return document


def set_value(document: object, path: str, value: object) -> object:
    """The document with this value at a path. It is changed in place, except for ``$``."""
    steps = parse(path)
    if not steps:
        return value
    parent, last = _parent(document, steps, path), steps[-1]
    if isinstance(parent, dict) and isinstance(last, str):
        parent[last] = value
    elif isinstance(parent, list) and isinstance(last, int) and last == len(parent):
        parent.append(value)
    elif isinstance(parent, list) and isinstance(last, int) and -len(parent) <= last < len(parent):
        parent[last] = value
    else:
        raise NotFound(f"the document has no parent for {path}: set its parent first")
    return document


def remove_value(document: object, path: str) -> bool:
    """Remove the value at a path from the document; return whether it existed."""
    steps = parse(path)
    if not steps:
        raise Invalid("$ is the whole document: delete the key instead")
    if value_at(document, path, _ABSENT) is _ABSENT:
        return False
    parent, last = _parent(document, steps, path), steps[-1]
    assert isinstance(parent, dict | list)
    del parent[last]  # type: ignore[arg-type]  # an existing path fits the type of its parent
    return True


def _parent(document: object, steps: tuple[Step, ...], path: str) -> object:
    for step in steps[:-1]:
        document = _at(document, step)
        if document is _ABSENT:
            raise NotFound(f"the document has no parent for {path}: set its parent first")
    return document


def _at(document: object, step: Step) -> object:
    if isinstance(document, dict) and isinstance(step, str):
        return document.get(step, _ABSENT)
    if isinstance(document, list) and isinstance(step, int) and -len(document) <= step:
        return document[step] if step < len(document) else _ABSENT
    return _ABSENT


def _name(path: str, quoted: str) -> str:
    try:
        return msgspec.json.decode(quoted, type=str)
    except msgspec.DecodeError as error:
        raise Invalid(f"{path!r} is not a JSON path: {error}") from error
