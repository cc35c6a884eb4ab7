"""Delivers computed view state to a store, and waits until it is installed.

If a process has the store open for writing, its ``adopt`` job installs the state within about a
second, and the view continues from there. Otherwise the client opens the store briefly and installs
it itself, as with deliveries (``delivery_client.py``).

After ``Unavailable`` the state is safe: it is installed when a process opens the store for writing.
"""

from __future__ import annotations

import contextlib
import threading

from strandline.config.settings import LakeSettings, Settings, ViewSettings
from strandline.errors import Locked, NotFound, StrandlineError, Unavailable
from strandline.ingest import delivery_codec as letters
from strandline.ingest import view_handoff_codec as handovers
from strandline.ingest.view_handoff_codec import ViewHandoff
from strandline.log.files.layout import Layout
from strandline.pipelines.delivery_client import as_error
from strandline.platform.clock import Clock
from strandline.platform.objectstore.cloud import open_objects
from strandline.platform.objectstore.protocol import Objects
from strandline.store import Store

_POLL_S = 0.05
_RETRY_S = 1.0


def deliver_view_state(
    store: str,
    handoff: ViewHandoff,
    *,
    lake: str = "",
    views_url: str = "",
    wait_s_max: float,
    clock: Clock,
) -> None:
    """Replace the state of a view; returns when the store has installed it durably."""
    folder = open_objects(Layout(store).incoming)
    try:
        folder.create(handoff.key(), handovers.encode(handoff), writer=handoff.attempt)
        _await_installed(store, lake, views_url, folder, handoff, wait_s_max, clock)
        with contextlib.suppress(NotFound):
            data = folder.get(handoff.rejected_key())
            folder.delete([handoff.rejected_key()])
            raise as_error(letters.decode_rejection(data, handoff.rejected_key()))
    finally:
        folder.close()


def _await_installed(
    store: str,
    lake: str,
    views_url: str,
    folder: Objects,
    handoff: ViewHandoff,
    wait_s_max: float,
    clock: Clock,
) -> None:
    deadline_s = clock.monotonic() + wait_s_max
    reason = "no process that has it open installs it"
    while _exists(folder, handoff.key()):
        pause_s = _POLL_S
        try:
            settings = Settings(lake=LakeSettings(url=lake), views=ViewSettings(url=views_url))
            with Store(store, settings=settings, start_jobs=False) as opened:
                opened.ingest_pending()
            continue
        except Locked:
            pass  # its writer installs it
        except (OSError, StrandlineError) as error:  # may concern another delivery
            reason, pause_s = str(error), _RETRY_S
        if clock.monotonic() > deadline_s and _exists(folder, handoff.key()):
            raise Unavailable(
                f"the {handoff.kind} view of {handoff.name!r} is rebuilt and safe, but {store} has "
                f"not installed it yet ({reason}): open the store for writing to install it"
            )
        clock.wait(threading.Event(), pause_s)


def _exists(folder: Objects, key: str) -> bool:
    try:
        folder.head(key)
    except NotFound:
        return False
    return True
