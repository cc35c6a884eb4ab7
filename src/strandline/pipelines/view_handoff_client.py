"""Hands a view's state to a store, and waits until it is taken.

When a process has the store open for writing, its ``adopt`` job takes it within a second or so, and
goes on with the view where it is. When none has, we open the store for a moment and take it
ourselves, as with deliveries (``delivery_client.py``).

After ``Unavailable`` the state is safe: it is taken when somebody opens the store for writing.
"""

from __future__ import annotations

import contextlib
import threading

from strandline.config.settings import LakeSettings, Settings, ViewSettings
from strandline.errors import Locked, NotFound, StrandlineError, Unavailable
from strandline.ingest import delivery_codec as letters
from strandline.ingest import view_handoff_codec as handovers
from strandline.ingest.view_handoff_codec import Handover
from strandline.log.files.layout import Layout
from strandline.pipelines.delivery_client import as_error
from strandline.platform.clock import Clock
from strandline.platform.objectstore.cloud import open_objects
from strandline.platform.objectstore.protocol import Objects
from strandline.store import Store

_LOOK_S = 0.05
_RETRY_S = 1.0


def hand_over(
    store: str,
    made: Handover,
    *,
    lake: str = "",
    views_url: str = "",
    patience_s: float,
    clock: Clock,
) -> None:
    """Put a state in the place of a view's own; returns when the store has it for good."""
    folder = open_objects(Layout(store).incoming)
    try:
        folder.create(made.key(), handovers.encode(made), writer=made.attempt)
        _await_taken(store, lake, views_url, folder, made, patience_s, clock)
        with contextlib.suppress(NotFound):
            data = folder.get(made.refused_key())
            folder.delete([made.refused_key()])
            raise as_error(letters.decode_refusal(data, made.refused_key()))
    finally:
        folder.close()


def _await_taken(
    store: str,
    lake: str,
    views_url: str,
    folder: Objects,
    made: Handover,
    patience_s: float,
    clock: Clock,
) -> None:
    deadline_s = clock.monotonic() + patience_s
    why = "no process that has it open takes it"
    while _is_there(folder, made.key()):
        pause_s = _LOOK_S
        try:
            settings = Settings(lake=LakeSettings(url=lake), views=ViewSettings(url=views_url))
            with Store(store, settings=settings, start_jobs=False) as opened:
                opened.take_deliveries()
            continue
        except Locked:
            pass  # its writer takes it
        except (OSError, StrandlineError) as error:  # it may be about something else
            why, pause_s = str(error), _RETRY_S
        if clock.monotonic() > deadline_s and _is_there(folder, made.key()):
            raise Unavailable(
                f"the {made.kind} view of {made.name!r} is rebuilt and safe, but {store} has not "
                f"taken it yet ({why}): open the store for writing, and it will"
            )
        clock.wait(threading.Event(), pause_s)


def _is_there(folder: Objects, key: str) -> bool:
    try:
        folder.head(key)
    except NotFound:
        return False
    return True
