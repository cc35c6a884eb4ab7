"""Delivers staged rows to a store, and waits until they are in the topic.

A store has one writer. When a process has the store open, its inbox job takes the delivery; when
none has, we open the store for a moment and take it ourselves. Either way it is appended once, and
a delivery that was made before is recognised, taken or not.

After ``Unavailable`` the delivery is safe: it is appended as soon as somebody opens the store for
writing, and delivering it again does no harm.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence

import msgspec

from strandline import errors
from strandline.config.settings import LakeSettings, Settings
from strandline.errors import (
    AlreadyThere,
    Conflict,
    Corrupt,
    Invalid,
    Locked,
    NotFound,
    StrandlineError,
    Unavailable,
    Unreachable,
)
from strandline.ingest import delivery_codec as letters
from strandline.ingest.delivery_codec import PENDING, REFUSED, Delivery, Refusal, Staged
from strandline.log.files import system_file
from strandline.log.files.layout import Layout
from strandline.platform.clock import Clock, SystemClock
from strandline.platform.disk import OsDisk
from strandline.platform.objectstore.cloud import open_objects
from strandline.platform.objectstore.protocol import Objects
from strandline.store import Store

PATIENCE_S = 60.0
_LOOK_S = 0.02
_RETRY_S = 1.0  # opening a store is work


def deliver(  # noqa: PLR0913 - what a delivery is, and how long to wait for it
    store: str,
    topic: str,
    files: Sequence[Staged],
    *,
    producer: str,
    number: int,
    attempt: str,
    lake: str = "",
    create: bool = False,
    expected_head: int | None = None,
    patience_s: float = PATIENCE_S,
    clock: Clock | None = None,
) -> None:
    """Append staged files to a topic as one numbered batch, unless its number was taken before.

    ``attempt`` is random. Files of an attempt that came too late are removed. With a head the batch
    is appended behind that record or, when others were there first, not at all: Conflict.
    """
    clock = clock or SystemClock()
    made = Delivery(
        store_id=system_file.read(OsDisk(), store).hex(),
        topic=topic,
        create=create,
        producer=producer,
        number=number,
        attempt=attempt,
        made_us=clock.now_us(),
        files=tuple(files),
        format=letters.FORMAT_ANYWHERE if expected_head is None else letters.FORMAT,
        expected_head=msgspec.UNSET if expected_head is None else expected_head,
    )
    letters.check(made)
    folder = open_objects(Layout(store).incoming)
    try:
        folder.delete([f"{REFUSED}/{made.name()}"])
        try:
            folder.create(f"{PENDING}/{made.name()}", letters.encode(made), writer=attempt)
        except (AlreadyThere, Unreachable):
            # An earlier attempt is delivered and not taken yet, or was taken in this very moment.
            discard(store, topic, files, producer=producer, number=number, lake=lake)
        _await_taken(store, lake, folder, made, patience_s, clock)
    finally:
        folder.close()


def discard(
    store: str, topic: str, files: Sequence[Staged], *, producer: str, number: int, lake: str = ""
) -> None:
    """Remove staged files, unless they are delivered: then they are the writer's."""
    folder = open_objects(Layout(store).incoming)
    key = f"{PENDING}/{letters.name_of(topic, producer, number)}"
    try:
        delivered = letters.decode(folder.get(key), key).files
    except NotFound:
        delivered = ()
    keys = {file.key for file in files} - {file.key for file in delivered}
    objects = open_objects(lake_of(store, lake))
    try:
        objects.delete(sorted(keys))
    finally:
        objects.close()


def await_delivered(
    store: str,
    topic: str,
    producer: str,
    *,
    lake: str = "",
    patience_s: float = PATIENCE_S,
    clock: Clock | None = None,
) -> None:
    """Return when nothing that a producer has delivered to a topic is waiting to be taken."""
    folder = open_objects(Layout(store).incoming)
    mine = letters.name_of(topic, producer, 0).partition("-")[0]
    try:
        for key in [info.key for info in folder.list(PENDING)]:
            if not key.startswith(f"{PENDING}/{mine}-"):
                continue
            with contextlib.suppress(NotFound, Invalid, Corrupt):  # taken, or refused meanwhile
                made = letters.decode(folder.get(key), key)
                _await_taken(store, lake, folder, made, patience_s, clock or SystemClock())
    finally:
        folder.close()


def lake_of(store: str, lake: str = "") -> str:
    """Where rows for a store are staged."""
    return lake or Layout(store).lake


def _await_taken(
    store: str, lake: str, folder: Objects, made: Delivery, patience_s: float, clock: Clock
) -> None:
    deadline = clock.monotonic() + patience_s
    why = "no process that has it open takes deliveries"
    while _is_there(folder, f"{PENDING}/{made.name()}"):
        pause_s = _LOOK_S
        try:
            _take(store, lake)
            continue
        except Locked:
            pass  # its writer takes it
        except (OSError, StrandlineError) as error:  # it may be about another delivery
            why, pause_s = str(error), _RETRY_S
        if clock.monotonic() > deadline and _is_there(folder, f"{PENDING}/{made.name()}"):
            raise Unavailable(
                f"{made.rows} rows for topic {made.topic!r} of {store} are delivered and safe, but "
                f"not appended yet ({why}): open the store for writing, and they will be"
            )
        clock.wait(threading.Event(), pause_s)
    refused = f"{REFUSED}/{made.name()}"
    if _is_there(folder, refused):
        why_not = as_error(letters.decode_refusal(folder.get(refused), refused))
        if why_not.code == Conflict.code:  # not to be repaired and tried again: forget it
            folder.delete([refused])
            files = made.files
            discard(store, made.topic, files, producer=made.producer, number=made.number, lake=lake)
        raise why_not


def _take(store: str, lake: str) -> None:
    with Store(store, settings=Settings(lake=LakeSettings(url=lake)), start_jobs=False) as opened:
        opened.take_deliveries()


def _is_there(folder: Objects, key: str) -> bool:
    try:
        folder.head(key)
    except NotFound:
        return False
    return True


def as_error(refused: Refusal) -> StrandlineError:
    """The error for which the writer refused a delivery."""
    for kind in vars(errors).values():
        if isinstance(kind, type) and issubclass(kind, (Invalid, Conflict, NotFound)):
            if kind.code != refused.error or kind is AlreadyThere:
                continue
            return kind(refused.reason)
    if refused.error == Corrupt.code:
        reason, _, where = refused.reason.partition(" in ")
        return Corrupt(reason, path=where.partition(" at byte ")[0])
    return Invalid(refused.reason)
