"""A handover: what was worked out for a view elsewhere, on its way into a store. Pure.

Whoever rebuilds a view (``pipelines/view_rebuild/rebuild_view.py``) or makes its windows
(``pipelines/rollup.py``)
may not write to the store. So pages or records lie in the lake's object store as staged files
(``staged_files.py``), which nobody sees, and then one small object is created in the folder
``incoming`` of the store: the commit. The writer of the store takes it (``view_handoff_job.py``).

    <store>/incoming/views/<attempt>.json          handed over
    <store>/incoming/views-refused/<attempt>.json  could not be taken
    <lake>/incoming/view-<attempt>-<part>.arrow    pages: columns page and data; or records: data
                                                   and meta

Pages are numbered as if the view began in space 0: ``space << 32 | n`` with a space below
``SPACES`` (``views/view.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
import pyarrow as pa
from xxhash import xxh3_64_hexdigest

from strandline.errors import Corrupt, Invalid, NewerFormat
from strandline.ingest.delivery_codec import STAGED, Staged
from strandline.views.view import SPACES
from strandline.views.view_runner import Saved

FORMAT = 1
WAITING = "views"
REFUSED = "views-refused"

PAGES = pa.schema(
    [
        pa.field("page", pa.int64(), nullable=False),
        pa.field("data", pa.binary(), nullable=False),
    ]
)
_PAGES_AT_ONCE = 256


class Windows(msgspec.Struct, frozen=True, kw_only=True):
    """The next windows of a rule, all that are due between two times."""

    after: int | None
    """How far the rule was before them."""
    first: int
    until: int
    position: int
    """The log up to this seq was looked at."""
    files: int
    """So many files have their records, the next ones in order."""


class Rolled(msgspec.Struct, frozen=True, kw_only=True):
    """Windows of a rule of a metrics view, one after the other."""

    source: str
    into: str
    version: int
    """The seq of the rule."""
    windows: tuple[Windows, ...]


class Handover(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of a handover: one line of JSON."""

    format: int = FORMAT
    store_id: str
    kind: str
    name: str
    attempt: str
    """A random id: no two have the same name."""
    made_us: int
    saved: Saved | None = None
    """The state; its space is 0."""
    rolled: Rolled | None = None
    """Windows that were made elsewhere."""
    files: tuple[Staged, ...] = ()
    """Pages of the state, or records of the windows. Without both it is a request to tend the view:
    apply its rules, save it, and let records go that it no longer needs."""
    checksum: str = ""
    """xxh3-64 of the line in which this is empty."""

    def key(self) -> str:
        return f"{WAITING}/{self.attempt}.json"

    def refused_key(self) -> str:
        return f"{REFUSED}/{self.attempt}.json"


def staged_key(attempt: str, part: int) -> str:
    return f"{STAGED}/view-{attempt}-{part:05d}.arrow"


def encode(handover: Handover) -> bytes:
    return msgspec.json.encode(msgspec.structs.replace(handover, checksum=_checksum(handover)))


def decode(data: bytes, path: str) -> Handover:
    """The handover, or an error that says what is wrong with it."""
    try:
        found = msgspec.json.decode(data, type=Handover)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Corrupt(f"a view that was handed over cannot be read ({error})", path=path) from error
    if found.format > FORMAT:
        raise NewerFormat(f"{path} was handed over by a newer Strandline: upgrade")
    if found.checksum != _checksum(found):
        raise Corrupt("a view that was handed over fails its checksum", path=path)
    return found


def batches_of(pages: Iterable[tuple[int, bytes]]) -> Iterator[pa.RecordBatch]:
    """Pages as rows to stage, some at a time."""
    numbers: list[int] = []
    data: list[bytes] = []
    for number, page in pages:
        numbers.append(number)
        data.append(page)
        if len(numbers) >= _PAGES_AT_ONCE:
            yield pa.record_batch([pa.array(numbers), pa.array(data, pa.binary())], schema=PAGES)
            numbers, data = [], []
    if numbers:
        yield pa.record_batch([pa.array(numbers), pa.array(data, pa.binary())], schema=PAGES)


def pages_of(batch: pa.RecordBatch, path: str) -> tuple[list[int], list[bytes]]:
    """The pages of some staged rows."""
    if not batch.schema.equals(PAGES):
        raise Corrupt("a staged file has other columns than pages have", path=path)
    numbers, data = batch.column("page").to_pylist(), batch.column("data").to_pylist()
    if numbers and not 0 <= min(numbers) <= max(numbers) < SPACES << 32:
        raise Invalid(f"a page of a view is numbered from 0 to {(SPACES << 32) - 1}: see {path}")
    return numbers, data


def _checksum(handover: Handover) -> str:
    return xxh3_64_hexdigest(msgspec.json.encode(msgspec.structs.replace(handover, checksum="")))
