"""Rejected deliveries and view handoffs in the folder ``incoming``.

The sender reads the rejection and deletes it; a rejection whose sender has ended stays, and is
reported until it is deleted by age.
"""

from __future__ import annotations

from collections.abc import Iterator

from strandline.errors import Conflict, NotFound
from strandline.ingest import delivery_codec as codec
from strandline.ingest import view_handoff_codec as handoffs
from strandline.platform.objectstore.protocol import Objects


def deliveries(folder: Objects) -> Iterator[tuple[str, str]]:
    """Rejected deliveries: key and message."""
    for key, rejection in _rejections(folder, codec.REFUSED):
        if rejection.error != Conflict.code:  # another append was first: not a problem
            yield key, f"a delivery to topic {rejection.topic!r} was rejected: {rejection.reason}"


def views(folder: Objects) -> Iterator[tuple[str, str]]:
    """Rejected view handoffs: key and message."""
    for key, rejection in _rejections(folder, handoffs.REFUSED):
        yield key, f"the handoff for view {rejection.topic!r} was rejected: {rejection.reason}"


def delete_old(folder: Objects, prefix: str, due_us: int) -> None:
    """Delete the rejections that are older than a time."""
    folder.delete([info.key for info in folder.list(prefix) if info.modified_us < due_us])


def _rejections(folder: Objects, prefix: str) -> Iterator[tuple[str, codec.Rejection]]:
    for info in folder.list(prefix):
        try:
            yield info.key, codec.decode_rejection(folder.get(info.key), info.key)
        except NotFound:
            continue  # the sender has deleted it
