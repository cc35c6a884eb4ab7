"""``strandline kv``: keys and values of a topic, read beside a process that writes, or changed."""

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
from strandline.cli.open_view import Looking, changing, kv_of, must_have, putting, writing
from strandline.cli.options import VIEW_TARGET, Flag, ViewTarget, microseconds, milliseconds
from strandline.cli.output import formatting
from strandline.cli.output.formatting import Json, Made, Row, row_of
from strandline.cli.output.output import output
from strandline.cli.views import kv_json, kv_watch
from strandline.errors import Conflict, Invalid, NotFound
from strandline.views.kv.compaction import Compacted
from strandline.views.kv.values import Entry, Version

if TYPE_CHECKING:  # views are loaded when one is asked for
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
        As it was when this was the newest version of the view.
    at
        As it was at this time: 2026-03-28T14:05:00Z, or microseconds since 1970.
    raw
        Write the bytes of the value and nothing else.
    """
    if version is not None and at is not None:
        raise Invalid("say when with --version or with --at, not with both")
    ts = None if at is None else microseconds(at)
    plain = os.fsencode(key)
    with _looking(name, target) as looking:
        entry = looking.ask(lambda kv: _find(kv, plain, version, ts))
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
    """Give a key a value, and make the view with its topic and store if there are none.

    Parameters
    ----------
    value
        The value. Without one, all of a piped stdin is taken.
    ttl
        Let the key end after this time: 500ms, 30s, 15m, 24h, 7d.
    nx
        Only if the key is not there.
    xx
        Only if the key is there.
    version
        Only if the key has this version; 0 is no key.
    """
    seconds = None if ttl is None else _ttl(ttl)
    stored = value_of(value, "value")
    with putting(target, "kv", name, kv_of) as kv:
        plain = os.fsencode(key)
        with _conflict_told(name, key):
            made = kv.put(plain, stored, ttl=seconds, nx=nx, xx=xx, version=version)
        output(target.output).one(_done(name, plain, version=made))


@app.command(name="rm", alias="delete")
def delete(
    name: Name, key: Key, /, *, version: int | None = None, target: ViewTarget = VIEW_TARGET
) -> None:
    """Delete a key; it tells whether the key was there.

    Parameters
    ----------
    version
        Only if the key has this version.
    """
    with changing(target, "kv", name, kv_of) as kv:
        plain = os.fsencode(key)
        with _conflict_told(name, key):
            deleted = kv.delete(plain, version=version)
        output(target.output).one(_done(name, plain, deleted=deleted))


@app.command
def incr(name: Name, key: Key, /, *, by: int = 1, target: ViewTarget = VIEW_TARGET) -> None:
    """Add to a counter, which begins at 0, and print what it is then.

    Parameters
    ----------
    by
        How much to add; less than 0 subtracts.
    """
    with putting(target, "kv", name, kv_of) as kv:
        plain = os.fsencode(key)
        with _conflict_told(name, key):
            number = kv.incr(plain, by)
        output(target.output).one(_done(name, plain, value=number))


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
        Only keys that begin so.
    first
        Only this key and those behind it.
    next
        Only keys before this one.
    after
        The cursor: go on behind this key.
    limit
        Print at most so many keys.
    reverse
        The last key first; --after then goes on before its key.
    everything
        Print all of them, however many.
    """
    if limit < 1:
        raise Invalid("--limit is 1 or more")
    bounds = {"prefix": _bytes(prefix), "first": _bytes(first), "next": _bytes(next)}
    cursor, left = _bytes(after), sys.maxsize if everything else limit
    out = output(target.output)
    with _looking(name, target) as looking:
        while True:
            page = looking.ask(_page_behind(cursor, min(left, _PAGE) + 1, bounds, reverse=reverse))
            shown = page[: min(left, _PAGE)]
            out.rows([_entry_row(entry) for entry in shown])
            left -= len(shown)
            if len(page) == len(shown) or not left:
                break
            cursor = shown[-1].key
    out.end()
    if len(page) > len(shown) and target.output == "table":
        sys.stdout.flush()
        print(f"more behind: --after {formatting.plain(shown[-1].key)}", file=sys.stderr)


@app.command
def history(name: Name, key: Key, /, *, target: ViewTarget = VIEW_TARGET) -> None:
    """Print the versions of a key that are kept, newest first, deletes included."""
    plain = os.fsencode(key)
    out = output(target.output)
    with _looking(name, target) as looking:
        versions = looking.ask(lambda kv: kv.history(plain))
    if not versions:
        raise _no_key(name, key)
    out.rows([_version_row(each) for each in versions])
    out.end()


@app.command
def compact(name: Name, /, *, target: ViewTarget = VIEW_TARGET) -> None:
    """Let records go that nobody can see any more: old versions, deleted and ended keys.

    A store does this by itself, after every save of its views.
    """
    with writing(target) as store:
        must_have(store, "kv", name)
        kv = store.kv(name)
        ended = kv.compact()
        if is_served(store):  # which saves its views by itself
            output(target.output).one(row_of(ended))
            return
        store.views.shelf.save()  # only what the saved view has seen may leave the log
        done = kv.compact()
        both = Compacted(
            expired=ended.expired + done.expired,
            forgotten=ended.forgotten + done.forgotten,
            released=ended.released + done.released,
        )
        output(target.output).one(row_of(both))


def _looking(name: str, target: ViewTarget) -> Looking[Kv]:
    return Looking(target, "kv", name, kv_of)


def _find(kv: Kv, key: bytes, version: int | None, ts: int | None) -> Entry | None:
    if version is None and ts is None:
        return kv.entry(key)
    return kv.entry_at(key, version=version, ts=ts)


def _page_behind(
    cursor: bytes | None, count: int, bounds: dict[str, bytes | None], *, reverse: bool
) -> Callable[[Kv], Sequence[Entry]]:
    def page(kv: Kv) -> Sequence[Entry]:
        return list(kv.scan(**bounds, after=cursor, limit=count, reverse=reverse))

    return page


def _ttl(text: str) -> float:
    ms = milliseconds(text)
    if not ms:
        raise Invalid("--ttl is more than 0: leave it out for a key that stays")
    return ms / 1000


@contextlib.contextmanager
def _conflict_told(name: str, key: str) -> Iterator[None]:
    """Say how to find out what is there instead."""
    try:
        yield
    except Conflict as error:
        error.add_note(f"`strandline kv get {name} {shlex.quote(key)}` shows what is there")
        raise


def _no_key(name: str, key: str) -> NotFound:
    error = NotFound(f"there is no key {key!r} in {name!r}")
    error.add_note(f"`strandline kv ls {name}` shows the keys")
    return error


def _entry_row(entry: Entry) -> Row:
    json: Json = {}
    formatting.put_bytes(json, "key", entry.key)
    formatting.put_bytes(json, "value", entry.value)
    json |= {"version": entry.version, "ts": entry.ts, "expires_us": entry.expires_us}
    return Made(
        json,
        {
            "key": formatting.plain(entry.key),
            "version": str(entry.version),
            "written": formatting.moment(entry.ts),
            "ends": None if entry.expires_us is None else formatting.moment(entry.expires_us),
            "value": formatting.plain(entry.value),
        },
    )


def _version_row(version: Version) -> Row:
    json: Json = {"version": version.version, "ts": version.ts, "deleted": version.deleted}
    formatting.put_bytes(json, "value", version.value)
    json["expires_us"] = version.expires_us
    return Made(
        json,
        {
            "version": str(version.version),
            "written": formatting.moment(version.ts),
            "ends": None if version.expires_us is None else formatting.moment(version.expires_us),
            "value": "(deleted)" if version.value is None else formatting.plain(version.value),
        },
    )


def _done(name: str, key: bytes, **outcome: object) -> Row:
    """What became of a key."""
    json: Json = {"name": name}
    formatting.put_bytes(json, "key", key)
    texts = {word: formatting.text(value) for word, value in outcome.items()}
    return Made(json | outcome, {"name": name, "key": formatting.plain(key), **texts})


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else os.fsencode(text)
