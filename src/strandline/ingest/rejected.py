"""What was delivered or handed over and could not be taken, as it lies in the folder ``incoming``.

Whoever sent it is told, and clears it away; what lies there is of somebody who was gone by then. It
is shown until it is swept.
"""

from __future__ import annotations

from collections.abc import Iterator

from strandline.errors import Conflict, NotFound
from strandline.ingest import delivery_codec as letters
from strandline.ingest import view_handoff_codec as handovers
from strandline.platform.objectstore.protocol import Objects


def deliveries(folder: Objects) -> Iterator[tuple[str, str]]:
    """Deliveries, each with its key and what is to be said of it."""
    for key, told in _refusals(folder, letters.REFUSED):
        if told.error != Conflict.code:  # somebody else was quicker: nothing is amiss
            yield key, f"a delivery to topic {told.topic!r} was refused: {told.reason}"


def views(folder: Objects) -> Iterator[tuple[str, str]]:
    """What was worked out for views, likewise."""
    for key, told in _refusals(folder, handovers.REFUSED):
        yield key, f"what a pipeline made for view {told.topic!r} was refused: {told.reason}"


def sweep(folder: Objects, prefix: str, due_us: int) -> None:
    """Remove what has been there since before a time."""
    folder.delete([info.key for info in folder.list(prefix) if info.modified_us < due_us])


def _refusals(folder: Objects, prefix: str) -> Iterator[tuple[str, letters.Refusal]]:
    for info in folder.list(prefix):
        try:
            yield info.key, letters.decode_refusal(folder.get(info.key), info.key)
        except NotFound:
            continue  # whoever sent it has seen it
