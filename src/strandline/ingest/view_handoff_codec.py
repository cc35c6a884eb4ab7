"""View handoff <-> bytes: view state that another process computed, for the writer. Pure.

A process that rebuilds a view (``pipelines/view_rebuild/rebuild_view.py``) or computes its windows
(``pipelines/rollup.py``) may not write to the store. So pages or records are staged files in the
lake's object store (``staged_files.py``), which are not visible, and then one small object is
created in the folder ``incoming`` of the store: the commit. The writer of the store installs it
(``view_handoff_job.py``).

    <store>/incoming/views/<attempt>.json          handed off
    <store>/incoming/views-refused/<attempt>.json  rejected
    <lake>/incoming/view-<attempt>-<part>.arrow    pages: columns page and data; or records: data
                                                   and meta

Pages are numbered for a view in space 0: ``space << 32 | n`` with a space below ``SPACES``
(``views/view.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
import pyarrow as pa
from xxhash import xxh3_64_hexdigest

from strandline.errors import Corrupt, Invalid, UnsupportedFormat
from strandline.ingest.delivery_codec import STAGED, StagedFile
from strandline.views.view import SPACES
from strandline.views.view_runner import SavedView

FORMAT = 1
WAITING = "views"
REFUSED = "views-refused"

PAGES = pa.schema(
    [
        pa.field("page", pa.int64(), nullable=False),
        pa.field("data", pa.binary(), nullable=False),
    ]
)
_BATCH_PAGES = 256


class RolledWindows(msgspec.Struct, frozen=True, kw_only=True):
    """The next windows of a rule: all that are due between two times."""

    after: int | None
    """The end of the rule's windows before them, None for the first."""
    first: int
    until: int
    position: int
    """The seq of the log that the windows go up to."""
    files: int
    """Number of files with their records, the next ones in order."""


class RollupHandoff(msgspec.Struct, frozen=True, kw_only=True):
    """Consecutive windows of a rule of a metrics view."""

    source: str
    into: str
    version: int
    """The seq of the rule."""
    windows: tuple[RolledWindows, ...]


class ViewHandoff(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of a handoff: one line of JSON."""

    format: int = FORMAT
    store_id: str
    kind: str
    name: str
    attempt: str
    """A random id, so that names are unique."""
    made_us: int
    saved: SavedView | None = None
    """The state; its space is 0."""
    rolled: RollupHandoff | None = None
    """Windows that another process computed."""
    files: tuple[StagedFile, ...] = ()
    """Pages of the state, or records of the windows. Without both it is a request to maintain the
    view: apply its rules, save it, and release records that it no longer needs."""
    checksum: str = ""
    """xxh3-64 of the line in which this is empty."""

    def key(self) -> str:
        return f"{WAITING}/{self.attempt}.json"

    def rejected_key(self) -> str:
        return f"{REFUSED}/{self.attempt}.json"


def staged_key(attempt: str, part: int) -> str:
    return f"{STAGED}/view-{attempt}-{part:05d}.arrow"


def encode(handoff: ViewHandoff) -> bytes:
    return msgspec.json.encode(msgspec.structs.replace(handoff, checksum=_checksum(handoff)))


def decode(data: bytes, path: str) -> ViewHandoff:
    """Decode a handoff; Corrupt when it is not as it was written."""
    try:
        handoff = msgspec.json.decode(data, type=ViewHandoff)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Corrupt(f"a view handoff cannot be read ({error})", path=path) from error
    if handoff.format > FORMAT:
        raise UnsupportedFormat(f"{path} was handed off by a newer Strandline: upgrade")
    if handoff.checksum != _checksum(handoff):
        raise Corrupt("a view handoff fails its checksum", path=path)
    return handoff


def batches_of(pages: Iterable[tuple[int, bytes]]) -> Iterator[pa.RecordBatch]:
    """Pages as record batches to stage."""
    numbers: list[int] = []
    data: list[bytes] = []
    for number, page in pages:
        numbers.append(number)
        data.append(page)
        if len(numbers) >= _BATCH_PAGES:
            yield pa.record_batch([pa.array(numbers), pa.array(data, pa.binary())], schema=PAGES)
            numbers, data = [], []
    if numbers:
        yield pa.record_batch([pa.array(numbers), pa.array(data, pa.binary())], schema=PAGES)


def pages_of(batch: pa.RecordBatch, path: str) -> tuple[list[int], list[bytes]]:
    """The pages of staged rows."""
    if not batch.schema.equals(PAGES):
        raise Corrupt("a staged file does not have the columns of pages", path=path)
    numbers, data = batch.column("page").to_pylist(), batch.column("data").to_pylist()
    if numbers and not 0 <= min(numbers) <= max(numbers) < SPACES << 32:
        raise Invalid(f"a page of a view is numbered from 0 to {(SPACES << 32) - 1}: see {path}")
    return numbers, data


def _checksum(handoff: ViewHandoff) -> str:
    return xxh3_64_hexdigest(msgspec.json.encode(msgspec.structs.replace(handoff, checksum="")))
