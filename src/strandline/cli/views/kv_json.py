"""``strandline kv json``: parts of values that are JSON, by their path.

A path is ``$.name``, ``$.list[0]``, ``$["any name"]``, and ``$`` the whole value
(views/kv/json_path.py).
"""

from __future__ import annotations

import json
import os
import shlex
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from strandline.cli.input.input import value_of
from strandline.cli.open_view import Looking, changing, kv_of, putting
from strandline.cli.options import VIEW_TARGET, ViewTarget
from strandline.cli.output import formatting
from strandline.cli.output.formatting import Json, Made
from strandline.cli.output.output import output
from strandline.errors import Invalid, NotFound

if TYPE_CHECKING:  # views are loaded when one is asked for
    from strandline.views.kv.kv import Kv

app = App(name="json", help="Get, set and delete parts of values that are JSON.")

Name = Annotated[str, Parameter(metavar="NAME", help="Name of the view, and of its topic.")]
Key = Annotated[str, Parameter(metavar="KEY", help="The key, any text.")]
Path = Annotated[str, Parameter(metavar="PATH", help="Such as $.name, $.list[0]; $ is all.")]

_ABSENT = object()


@app.command
def get(name: Name, key: Key, path: Path = "$", /, *, target: ViewTarget = VIEW_TARGET) -> None:
    """Print what is at a path of a value."""
    plain = os.fsencode(key)

    def find(kv: Kv) -> object:
        return kv.json_get(plain, path, _ABSENT)

    with Looking(target, "kv", name, kv_of) as looking:
        found = looking.ask(find)
    if found is _ABSENT:
        error = NotFound(f"there is nothing at {path} of key {key!r} in {name!r}")
        error.add_note(f"`strandline kv get {name} {shlex.quote(key)}` shows what is there")
        raise error
    _tell(target, name, plain, path, value=found)


@app.command(name="set")
def put(
    name: Name,
    key: Key,
    path: Path,
    value: str | None = None,
    /,
    *,
    target: ViewTarget = VIEW_TARGET,
) -> None:
    """Put JSON at a path of a value. Its parent must be there; $ makes a new value, or another.

    Parameters
    ----------
    value
        JSON: 5, true, "text", {"a": [1]}. Without it, all of a piped stdin is taken.
    """
    given = _parsed(value_of(value, "value"))
    with putting(target, "kv", name, kv_of) as kv:
        plain = os.fsencode(key)
        version = kv.json_set(plain, path, given)
        _tell(target, name, plain, path, version=version)


@app.command
def delete(name: Name, key: Key, path: Path, /, *, target: ViewTarget = VIEW_TARGET) -> None:
    """Take out what is at a path of a value; it tells whether something was there."""
    with changing(target, "kv", name, kv_of) as kv:
        plain = os.fsencode(key)
        deleted = kv.json_delete(plain, path)
        _tell(target, name, plain, path, deleted=deleted)


def _parsed(text: bytes) -> object:
    try:
        return json.loads(text)
    except ValueError as error:
        told = Invalid(f"the value is no JSON: {error}")
        told.add_note("""text is JSON in quotes of its own: '"London"'""")
        raise told from error


def _tell(target: ViewTarget, name: str, key: bytes, path: str, **outcome: object) -> None:
    told: Json = {"name": name}
    formatting.put_bytes(told, "key", key)
    texts = {word: json.dumps(value, ensure_ascii=False) for word, value in outcome.items()}
    columns = {"name": name, "key": formatting.plain(key), "path": formatting.plain(path)}
    columns |= {word: formatting.plain(text) for word, text in texts.items()}
    output(target.output).one(Made(told | {"path": path} | outcome, columns))
