"""``strandline kv watch``: live changes of keys, while another process writes.

It polls about five times a second, less often when a poll itself takes long.
"""

from __future__ import annotations

import os
import sys
import time
from itertools import islice
from typing import TYPE_CHECKING

from strandline.cli.open_store import is_served
from strandline.cli.open_view import ReadOnlyView, kv_of
from strandline.cli.options import VIEW_TARGET, ViewTarget, milliseconds
from strandline.cli.output import formatting
from strandline.cli.output.formatting import Json, OutputRow, PreparedRow
from strandline.cli.output.output import RowPrinter, output
from strandline.errors import Invalid
from strandline.views.kv.values import Change

if TYPE_CHECKING:  # a view is imported when it is opened
    from strandline.views.kv.kv import Kv

_PAGE = 1000
_POLL_S = 0.2


def watch(
    name: str,
    key: str | None = None,
    /,
    *,
    prefix: str | None = None,
    after: int | None = None,
    timeout: str | None = None,
    target: ViewTarget = VIEW_TARGET,
) -> None:
    """Print live changes of a key, of a prefix, or of all keys, until interrupted.

    Parameters
    ----------
    name
        Name of the view, and of its topic.
    key
        Only changes of this key.
    prefix
        Only changes of keys with this prefix.
    after
        Start after this version; 0: all retained changes. Default: new changes.
    timeout
        Exit after this time without a change: 500ms, 30s, 15m.
    """
    if key is not None and prefix is not None:
        raise Invalid("watch a KEY or a --prefix, not both")
    if after is not None and after < 0:
        raise Invalid("--after is 0 or a version")
    idle_s = None if timeout is None else milliseconds(timeout) / 1000
    out = output(target.output, live=True)
    with ReadOnlyView(target, "kv", name, kv_of) as view:
        try:
            if is_served(view.store):
                kv = view.run(lambda kv: kv)
                changes = kv.watch(
                    _bytes(key), prefix=_bytes(prefix), after=after, timeout_s=idle_s
                )
                for change in changes:
                    out.rows([_change_row(change)])
            else:
                _follow(ChangePoller(view, _bytes(key), _bytes(prefix), after), out, idle_s)
        finally:
            out.end()


class ChangePoller:
    """A position in the changes of a view."""

    def __init__(
        self,
        view: ReadOnlyView[Kv],
        key: bytes | None,
        prefix: bytes | None,
        after: int | None,
    ) -> None:
        self._view = view
        self._key = key
        self._prefix = prefix
        self._after = view.run(lambda kv: kv.head) if after is None else after

    def poll(self) -> list[Change]:
        """The next available changes, at most a page."""
        head, changes = self._view.run(lambda kv: (kv.head, self._changes(kv)))
        self._after = changes[-1].version if changes else max(self._after, head)
        return changes

    def refresh(self) -> None:
        """Read what the writer has changed since the last refresh."""
        self._view.refresh()

    def _changes(self, kv: Kv) -> list[Change]:
        changes = kv.watch(self._key, prefix=self._prefix, after=self._after, timeout_s=0)
        return list(islice(changes, _PAGE))


def _follow(watcher: ChangePoller, out: RowPrinter, idle_s: float | None) -> None:
    pause = _POLL_S
    deadline = None if idle_s is None else time.monotonic() + idle_s
    while True:
        changes = watcher.poll()
        if changes:
            out.rows([_change_row(change) for change in changes])
            deadline = None if idle_s is None else time.monotonic() + idle_s
            continue
        remaining = pause if deadline is None else deadline - time.monotonic()
        if remaining <= 0:
            return
        sys.stdout.flush()
        time.sleep(min(pause, remaining))
        started_at = time.monotonic()
        watcher.refresh()
        pause = max(_POLL_S, time.monotonic() - started_at)


def _change_row(change: Change) -> OutputRow:
    json: Json = {"version": change.version, "ts": change.ts}
    formatting.put_bytes(json, "key", change.key)
    json |= {"deleted": change.deleted, "expired": change.expired}
    formatting.put_bytes(json, "value", change.value)
    json["expires_us"] = change.expires_us
    gone = "(ended)" if change.expired else "(deleted)"
    return PreparedRow(
        json,
        {
            "version": str(change.version),
            "time": formatting.time_text(change.ts),
            "key": formatting.plain(change.key),
            "value": gone if change.value is None else formatting.plain(change.value),
        },
    )


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else os.fsencode(text)
