"""``strandline kv``: reads and changes keys and values, also while another process writes."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from strandline.cli.input.input import value_of
from strandline.cli.open_store import is_served
from strandline.cli.open_view import (
    ReadOnlyView,
    check_view_exists,
    kv_of,
    open_existing_view,
    open_or_create_view,
    open_to_write,
)
from strandline.cli.options import VIEW_TARGET, Flag, ViewTarget, microseconds, milliseconds
from strandline.cli.output import formatting
from strandline.cli.output.formatting import Json, OutputRow, PreparedRow, row_of
from strandline.cli.output.output import output
from strandline.cli.views import kv_json, kv_watch
from strandline.errors import Conflict, Invalid, NotFound
from strandline.views.kv.compaction import KvCompactionResult
from strandline.views.kv.values import Entry, Version

if TYPE_CHECKING:  # a view is imported when it is opened
    from strandline.views.kv.kv import Kv

_PAGE = 1000

app = App(name="kv")

app.command(kv_watch.watch)
app.command(kv_json.app)

Name = Annotated[str, Parameter(metavar="NAME", help="Name of the view, and of its topic.")]
Key = Annotated[str, Parameter(metavar="KEY", help="The key, any text.")]


@app.command
def get(
    name: Name,
    key: Key,
    /,
    *,
    version: int | None = None,
    at: str | None = None,
    raw: Flag = False,
    target: ViewTarget = VIEW_TARGET,
) -> None:
    """Print a key with its value and version.

    Parameters
    ----------
    version
        The entry as of this version of the view.
    at
        The entry as of this time: 2026-03-28T14:05:00Z, or microseconds since 1970.
    raw
        Print only the bytes of the value.
    """
    if version is not None and at is not None:
        raise Invalid("give --version or --at, not both")
    ts = None if at is None else microseconds(at)
    plain = os.fsencode(key)
    with _view(name, target) as view:
        entry = view.run(lambda kv: _find(kv, plain, version, ts))
    if entry is None:
        raise _no_key(name, key)
    if raw:
        sys.stdout.flush()
        sys.stdout.buffer.write(entry.value)
    else:
        output(target.output).one(_entry_row(entry))


@app.command
def put(
    name: Name,
    key: Key,
    value: str | None = None,
    /,
    *,
    ttl: str | None = None,
    nx: Flag = False,
    xx: Flag = False,
    version: int | None = None,
    target: ViewTarget = VIEW_TARGET,
) -> None:
    """Put a value, and create the view with its topic and store if they do not exist.

    Parameters
    ----------
    value
        The value. Default: all of a piped stdin.
    ttl
        Expire the key after this time: 500ms, 30s, 15m, 24h, 7d.
    nx
        Only if the key does not exist.
    xx
        Only if the key exists.
    version
        Only if the key has this version; 0: does not exist.
    """
    seconds = None if ttl is None else _ttl(ttl)
    stored = value_of(value, "value")
    with open_or_create_view(target, "kv", name, kv_of) as kv:
        plain = os.fsencode(key)
        with _conflict_hint(name, key):
            new_version = kv.put(plain, stored, ttl=seconds, nx=nx, xx=xx, version=version)
        output(target.output).one(_result_row(name, plain, version=new_version))


@app.command(name="rm", alias="delete")
def delete(
    name: Name, key: Key, /, *, version: int | None = None, target: ViewTarget = VIEW_TARGET
) -> None:
    """Delete a key, and print whether it existed.

    Parameters
    ----------
    version
        Only if the key has this version.
    """
    with open_existing_view(target, "kv", name, kv_of) as kv:
        plain = os.fsencode(key)
        with _conflict_hint(name, key):
            deleted = kv.delete(plain, version=version)
        output(target.output).one(_result_row(name, plain, deleted=deleted))


@app.command
def incr(name: Name, key: Key, /, *, by: int = 1, target: ViewTarget = VIEW_TARGET) -> None:
    """Add to a counter, which starts at 0, and print its new value.

    Parameters
    ----------
    by
        Amount to add; a negative one subtracts.
    """
    with open_or_create_view(target, "kv", name, kv_of) as kv:
        plain = os.fsencode(key)
        with _conflict_hint(name, key):
            number = kv.incr(plain, by)
        output(target.output).one(_result_row(name, plain, value=number))


@app.command(name="ls", alias="scan")
def scan(
    name: Name,
    /,
    *,
    prefix: str | None = None,
    first: str | None = None,
    next: str | None = None,
    after: str | None = None,
    limit: int = 100,
    reverse: Flag = False,
    everything: Annotated[Flag, Parameter(name=["--all", "-a"])] = False,
    target: ViewTarget = VIEW_TARGET,
) -> None:
    """Print keys with their values, in order of the keys.

    Parameters
    ----------
    prefix
        Only keys with this prefix.
    first
        Only this key and the keys after it.
    next
        Only keys before this one.
    after
        The cursor: continue after this key.
    limit
        Print at most this many keys.
    reverse
        Last key first; --after then continues before its key.
    everything
        Print all keys.
    """
    if limit < 1:
        raise Invalid("--limit is 1 or more")
    bounds = {"prefix": _bytes(prefix), "first": _bytes(first), "next": _bytes(next)}
    cursor, remaining = _bytes(after), sys.maxsize if everything else limit
    out = output(target.output)
    with _view(name, target) as view:
        while True:
            page = view.run(_page_after(cursor, min(remaining, _PAGE) + 1, bounds, reverse=reverse))
            shown = page[: min(remaining, _PAGE)]
            out.rows([_entry_row(entry) for entry in shown])
            remaining -= len(shown)
            if len(page) == len(shown) or not remaining:
                break
            cursor = shown[-1].key
    out.end()
    if len(page) > len(shown) and target.output == "table":
        sys.stdout.flush()
        print(f"more keys: --after {formatting.plain(shown[-1].key)}", file=sys.stderr)


@app.command
def history(name: Name, key: Key, /, *, target: ViewTarget = VIEW_TARGET) -> None:
    """Print the retained versions of a key, newest first, deletes included."""
    plain = os.fsencode(key)
    out = output(target.output)
    with _view(name, target) as view:
        versions = view.run(lambda kv: kv.history(plain))
    if not versions:
        raise _no_key(name, key)
    out.rows([_version_row(each) for each in versions])
    out.end()


@app.command
def compact(name: Name, /, *, target: ViewTarget = VIEW_TARGET) -> None:
    """Trim records that are no longer visible: old versions, deleted and expired keys.

    A store does this by itself, after every save of its views.
    """
    with open_to_write(target) as store:
        check_view_exists(store, "kv", name)
        kv = store.kv(name)
        expired = kv.compact()
        if is_served(store):  # a server saves its views itself
            output(target.output).one(row_of(expired))
            return
        store.views.registry.save()  # the log may lose only records that the saved view has applied
        compacted = kv.compact()
        both = KvCompactionResult(
            expired=expired.expired + compacted.expired,
            forgotten=expired.forgotten + compacted.forgotten,
            released=expired.released + compacted.released,
        )
        output(target.output).one(row_of(both))


def _view(name: str, target: ViewTarget) -> ReadOnlyView[Kv]:
    return ReadOnlyView(target, "kv", name, kv_of)


def _find(kv: Kv, key: bytes, version: int | None, ts: int | None) -> Entry | None:
    if version is None and ts is None:
        return kv.entry(key)
    return kv.entry_at(key, version=version, ts=ts)


def _page_after(
    cursor: bytes | None, count: int, bounds: dict[str, bytes | None], *, reverse: bool
) -> Callable[[Kv], Sequence[Entry]]:
    def page(kv: Kv) -> Sequence[Entry]:
        return list(kv.scan(**bounds, after=cursor, limit=count, reverse=reverse))

    return page


def _ttl(text: str) -> float:
    ms = milliseconds(text)
    if not ms:
        raise Invalid("--ttl is more than 0: leave it out for a key without expiry")
    return ms / 1000


@contextlib.contextmanager
def _conflict_hint(name: str, key: str) -> Iterator[None]:
    """Add a hint to a conflict: how to read the current entry."""
    try:
        yield
    except Conflict as error:
        error.add_note(f"`strandline kv get {name} {shlex.quote(key)}` shows the current entry")
        raise


def _no_key(name: str, key: str) -> NotFound:
    error = NotFound(f"there is no key {key!r} in {name!r}")
    error.add_note(f"`strandline kv ls {name}` lists the keys")
    return error


def _entry_row(entry: Entry) -> OutputRow:
    json: Json = {}
    formatting.put_bytes(json, "key", entry.key)
    formatting.put_bytes(json, "value", entry.value)
    json |= {"version": entry.version, "ts": entry.ts, "expires_us": entry.expires_us}
    return PreparedRow(
        json,
        {
            "key": formatting.plain(entry.key),
            "version": str(entry.version),
            "written": formatting.time_text(entry.ts),
            "ends": None if entry.expires_us is None else formatting.time_text(entry.expires_us),
            "value": formatting.plain(entry.value),
        },
    )


def _version_row(version: Version) -> OutputRow:
    json: Json = {"version": version.version, "ts": version.ts, "deleted": version.deleted}
    formatting.put_bytes(json, "value", version.value)
    json["expires_us"] = version.expires_us
    return PreparedRow(
        json,
        {
            "version": str(version.version),
            "written": formatting.time_text(version.ts),
            "ends": None
            if version.expires_us is None
            else formatting.time_text(version.expires_us),
            "value": "(deleted)" if version.value is None else formatting.plain(version.value),
        },
    )


def _result_row(name: str, key: bytes, **outcome: object) -> OutputRow:
    """The result of a change of a key."""
    json: Json = {"name": name}
    formatting.put_bytes(json, "key", key)
    texts = {field: formatting.text(value) for field, value in outcome.items()}
    return PreparedRow(json | outcome, {"name": name, "key": formatting.plain(key), **texts})


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else os.fsencode(text)
