"""Delivers staged rows to a store, and waits until they are in the topic.

A store has one writer. If a process has the store open, its delivery job appends the rows;
otherwise the client opens the store briefly and appends them itself. Either way they are appended
once, and a repeated delivery is recognised, whether it was appended or not.

After ``Unavailable`` the delivery is safe: it is appended when a process opens the store for
writing, and delivering it again has no effect.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence

import msgspec

from strandline import errors
from strandline.config.settings import LakeSettings, Settings
from strandline.errors import (
    Conflict,
    Corrupt,
    Invalid,
    Locked,
    NotFound,
    ObjectExists,
    ObjectStoreUnreachable,
    StrandlineError,
    Unavailable,
)
from strandline.ingest import delivery_codec as letters
from strandline.ingest.delivery_codec import PENDING, REFUSED, Rejection, StagedFile, TopicDelivery
from strandline.log.files import system_file
from strandline.log.files.layout import Layout
from strandline.platform.clock import Clock, SystemClock
from strandline.platform.disk import OsDisk
from strandline.platform.objectstore.cloud import open_objects
from strandline.platform.objectstore.protocol import Objects
from strandline.store import Store

WAIT_S_MAX = 60.0
_POLL_S = 0.02
_RETRY_S = 1.0  # longer, because opening a store is expensive


def deliver(  # noqa: PLR0913 - the fields of a delivery, and how long to wait for it
    store: str,
    topic: str,
    files: Sequence[StagedFile],
    *,
    producer: str,
    number: int,
    attempt: str,
    lake: str = "",
    create: bool = False,
    expected_head: int | None = None,
    wait_s_max: float = WAIT_S_MAX,
    clock: Clock | None = None,
) -> None:
    """Append staged files to a topic as one numbered batch, unless its number was accepted before.

    ``attempt`` is random. Files of an attempt that came too late are removed. With
    ``expected_head`` the batch is appended after that record, or Conflict if others were appended.
    """
    clock = clock or SystemClock()
    delivery = TopicDelivery(
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
    letters.check(delivery)
    folder = open_objects(Layout(store).incoming)
    try:
        folder.delete([f"{REFUSED}/{delivery.name()}"])
        try:
            folder.create(f"{PENDING}/{delivery.name()}", letters.encode(delivery), writer=attempt)
        except (ObjectExists, ObjectStoreUnreachable):
            # An earlier attempt is pending, or was appended at the same time.
            discard(store, topic, files, producer=producer, number=number, lake=lake)
        _await_appended(store, lake, folder, delivery, wait_s_max, clock)
    finally:
        folder.close()


def discard(
    store: str,
    topic: str,
    files: Sequence[StagedFile],
    *,
    producer: str,
    number: int,
    lake: str = "",
) -> None:
    """Remove staged files, unless they were delivered: then they belong to the writer."""
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
    wait_s_max: float = WAIT_S_MAX,
    clock: Clock | None = None,
) -> None:
    """Return when no delivery of a producer to a topic is pending."""
    folder = open_objects(Layout(store).incoming)
    prefix = letters.name_of(topic, producer, 0).partition("-")[0]
    try:
        for key in [info.key for info in folder.list(PENDING)]:
            if not key.startswith(f"{PENDING}/{prefix}-"):
                continue
            with contextlib.suppress(NotFound, Invalid, Corrupt):  # just appended or rejected
                delivery = letters.decode(folder.get(key), key)
                _await_appended(store, lake, folder, delivery, wait_s_max, clock or SystemClock())
    finally:
        folder.close()


def lake_of(store: str, lake: str = "") -> str:
    """The location where rows for a store are staged."""
    return lake or Layout(store).lake


def _await_appended(
    store: str, lake: str, folder: Objects, delivery: TopicDelivery, wait_s_max: float, clock: Clock
) -> None:
    deadline = clock.monotonic() + wait_s_max
    reason = "no process that has it open accepts deliveries"
    while _exists(folder, f"{PENDING}/{delivery.name()}"):
        pause_s = _POLL_S
        try:
            _append_pending(store, lake)
            continue
        except Locked:
            pass  # its writer appends it
        except (OSError, StrandlineError) as error:  # may concern another delivery
            reason, pause_s = str(error), _RETRY_S
        if clock.monotonic() > deadline and _exists(folder, f"{PENDING}/{delivery.name()}"):
            raise Unavailable(
                f"{delivery.rows} rows for topic {delivery.topic!r} of {store} are delivered and "
                f"safe, but not appended yet ({reason}): open the store for writing to append them"
            )
        clock.wait(threading.Event(), pause_s)
    rejection_key = f"{REFUSED}/{delivery.name()}"
    if _exists(folder, rejection_key):
        rejection = as_error(letters.decode_rejection(folder.get(rejection_key), rejection_key))
        if rejection.code == Conflict.code:  # a retry cannot succeed: discard it
            folder.delete([rejection_key])
            files = delivery.files
            discard(
                store,
                delivery.topic,
                files,
                producer=delivery.producer,
                number=delivery.number,
                lake=lake,
            )
        raise rejection


def _append_pending(store: str, lake: str) -> None:
    with Store(store, settings=Settings(lake=LakeSettings(url=lake)), start_jobs=False) as opened:
        opened.ingest_pending()


def _exists(folder: Objects, key: str) -> bool:
    try:
        folder.head(key)
    except NotFound:
        return False
    return True


def as_error(refusal: Rejection) -> StrandlineError:
    """The error with which the writer rejected a delivery."""
    for error_class in vars(errors).values():
        if isinstance(error_class, type) and issubclass(error_class, (Invalid, Conflict, NotFound)):
            if error_class.code != refusal.error or error_class is ObjectExists:
                continue
            return error_class(refusal.reason)
    if refusal.error == Corrupt.code:
        reason, _, where = refusal.reason.partition(" in ")
        return Corrupt(reason, path=where.partition(" at byte ")[0])
    return Invalid(refusal.reason)
