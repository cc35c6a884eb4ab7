"""``strandline kv json``: parts of JSON values, by their path.

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
from strandline.cli.open_view import ReadOnlyView, kv_of, open_existing_view, open_or_create_view
from strandline.cli.options import VIEW_TARGET, ViewTarget
from strandline.cli.output import formatting
from strandline.cli.output.formatting import Json, PreparedRow
from strandline.cli.output.output import output
from strandline.errors import Invalid, NotFound

if TYPE_CHECKING:  # a view is imported when it is opened
    from strandline.views.kv.kv import Kv

app = App(name="json", help="Get, set and delete parts of JSON values.")

Name = Annotated[str, Parameter(metavar="NAME", help="Name of the view, and of its topic.")]
Key = Annotated[str, Parameter(metavar="KEY", help="The key, any text.")]
Path = Annotated[str, Parameter(metavar="PATH", help="As in $.name, $.list[0]; $ is the value.")]

_ABSENT = object()


@app.command
def get(name: Name, key: Key, path: Path = "$", /, *, target: ViewTarget = VIEW_TARGET) -> None:
    """Print the part of a value at a path."""
    plain = os.fsencode(key)

    def find(kv: Kv) -> object:
        return kv.json_get(plain, path, _ABSENT)

    with ReadOnlyView(target, "kv", name, kv_of) as view:
        found = view.run(find)
    if found is _ABSENT:
        error = NotFound(f"there is nothing at {path} of key {key!r} in {name!r}")
        error.add_note(f"`strandline kv get {name} {shlex.quote(key)}` shows the value")
        raise error
    _print_result(target, name, plain, path, value=found)


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
    """Set JSON at a path of a value. Its parent must exist; $ replaces the whole value.

    Parameters
    ----------
    value
        JSON: 5, true, "text", {"a": [1]}. Default: all of a piped stdin.
    """
    json_value = _parsed(value_of(value, "value"))
    with open_or_create_view(target, "kv", name, kv_of) as kv:
        plain = os.fsencode(key)
        version = kv.json_set(plain, path, json_value)
        _print_result(target, name, plain, path, version=version)


@app.command
def delete(name: Name, key: Key, path: Path, /, *, target: ViewTarget = VIEW_TARGET) -> None:
    """Delete the part of a value at a path, and print whether it existed."""
    with open_existing_view(target, "kv", name, kv_of) as kv:
        plain = os.fsencode(key)
        deleted = kv.json_delete(plain, path)
        _print_result(target, name, plain, path, deleted=deleted)


def _parsed(text: bytes) -> object:
    try:
        return json.loads(text)
    except ValueError as error:
        wrong = Invalid(f"the value is not JSON: {error}")
        wrong.add_note("""text is JSON in quotes of its own: '"London"'""")
        raise wrong from error


def _print_result(target: ViewTarget, name: str, key: bytes, path: str, **outcome: object) -> None:
    row: Json = {"name": name}
    formatting.put_bytes(row, "key", key)
    texts = {field: json.dumps(value, ensure_ascii=False) for field, value in outcome.items()}
    columns = {"name": name, "key": formatting.plain(key), "path": formatting.plain(path)}
    columns |= {field: formatting.plain(text) for field, text in texts.items()}
    output(target.output).one(PreparedRow(row | {"path": path} | outcome, columns))
