"""Promise: what docs/format/reservoir.md says of bytes is what is written and read, and the guide
lists every setting."""

from __future__ import annotations

import re
import struct

import msgspec
import pytest
from fastcrc.crc64 import ecma_182
from xxhash import xxh3_64_intdigest

from strandline.config.settings import GIB, MIB, ReservoirSettings
from strandline.reservoir import (
    checkpoint_codec,
    checkpoint_registry,
    object_keys,
    reservoir_state,
    verify,
)
from strandline.reservoir.checkpoint_writer import CheckpointWriter
from strandline.reservoir.data_files import data_file_codec
from strandline.reservoir.data_files.data_file_builder import DataFile
from strandline.reservoir.data_files.data_file_table import FILE_ROW, GARBAGE_ROW
from strandline.reservoir.data_files.page_table import ROW
from strandline.reservoir.reservoir import Reservoir
from strandline.testing.sim_clock import WALL_US_START
from strandline.testing.sim_objects import SimObjects
from tests.docs.format_page import worked_example
from tests.house.tree import read_document

PAGE = "docs/format/reservoir.md"
GUIDE = "docs/guide/reservoir.md"
PAGE_LINES_MAX = 120
RESERVOIR_ID = bytes(range(16))
WRITER_ID = bytes(range(16, 32))
KEY = object_keys.checkpoint_key(1)


def test_the_example_is_what_the_writer_writes_but_for_packing(monkeypatch: pytest.MonkeyPatch):
    packed = checkpoint_codec.encode
    monkeypatch.setattr(
        checkpoint_codec, "encode", lambda made, *, compress: packed(made, compress=False)
    )

    assert _written() == worked_example(PAGE)


def test_the_example_is_read_back_as_the_page_says():
    objects = SimObjects()
    objects.put(KEY, worked_example(PAGE))

    with Reservoir(objects, readonly=True) as reservoir:
        page, meta, version = reservoir.read(7), reservoir.meta, reservoir.version
        place = reservoir.place(7)

    assert (page, meta, version) == (b"hello, reservoir", b"step one", 1)
    assert (place.file_id, place.offset, place.size) == (object_keys.bundle_id(1), 0x50, 16)
    assert verify.verify(objects).ok


def test_a_packed_checkpoint_says_the_same():
    objects = SimObjects()
    objects.put(KEY, _written())

    with Reservoir(objects, readonly=True) as reservoir:
        assert (reservoir.read(7), reservoir.meta) == (b"hello, reservoir", b"step one")


def test_the_checksums_of_the_page_are_those_of_the_example():
    example = worked_example(PAGE)
    factors = [int(each, 16) for each in re.findall(r"0x[0-9A-F]{16}", read_document(PAGE))]
    file_id = 1 << 63 | 1
    seed = (7 * factors[0] + file_id * factors[1]) % 2**64

    stored_page, stored_file = struct.unpack_from("<Q", example, 0x100)[0], example[:0x60]

    assert stored_page == xxh3_64_intdigest(b"hello, reservoir", seed)
    assert struct.pack("<Q", ecma_182(stored_file)) in example[0x108:0x150]
    assert example[-8:] == struct.pack("<Q", ecma_182(example[-64:-8]))


@pytest.mark.parametrize(
    ("title", "size"),
    [
        ("data file", data_file_codec.HEADER_SIZE),
        ("checkpoint", checkpoint_codec.HEADER_SIZE),
        ("footer", checkpoint_codec.FOOTER_SIZE),
        ("registry", 16),
    ],
)
def test_the_fields_of_a_table_follow_each_other_to_its_end(title: str, size: int):
    rows = [(int(offset), int(length)) for offset, length in _rows(title)]

    ends = [offset + length for offset, length in rows]

    assert [offset for offset, _ in rows] == [0, *ends[:-1]]
    assert ends[-1] == size


@pytest.mark.parametrize(
    ("letter", "columns"),
    [
        ("P", 1 + len(ROW.names)),
        ("D", 1),
        ("F", len(FILE_ROW.names)),
        ("G", len(GARBAGE_ROW.names)),
        ("N", len(checkpoint_registry.RegistryRow.__struct_fields__)),
    ],
)
def test_the_page_lists_every_column(letter: str, columns: int):
    row = re.search(rf"^\| {letter} \| (.*) \|$", read_document(PAGE), re.MULTILINE)

    assert row is not None
    assert len(re.sub(r"\(.*?\)", "", row[1]).split(",")) == columns


def test_the_page_is_short_enough_to_finish():
    assert len(read_document(PAGE).splitlines()) <= PAGE_LINES_MAX


def test_the_guide_lists_every_setting_with_its_default():
    _, _, section = read_document(GUIDE).partition("\n## Settings\n")

    told = dict(re.findall(r"^\| `([a-z_]+)` \| (.*?) \|", section, re.MULTILINE))

    defaults = msgspec.structs.asdict(ReservoirSettings())
    del defaults["objects"]  # a group of its own, told elsewhere
    assert told == {name: _shown(value) for name, value in defaults.items()}


def _shown(value: object) -> str:
    for unit, name in ((GIB, "GiB"), (MIB, "MiB")):
        if isinstance(value, int) and value >= unit:
            return f"{value // unit} {name}"
    return str(value).lower()


def _rows(title: str) -> list[tuple[str, str]]:
    """Offsets and sizes of the fixed fields of a table, by the title of its last column."""
    _, _, rest = read_document(PAGE).partition(f"| offset | size | {title} |\n")
    return re.findall(r"^\| (\d+) \| (\d+) \|", rest.partition("\n\n")[0], re.MULTILINE)


def _written() -> bytes:
    """A bundle and snapshot of one page, as a writer's first checkpoint would be."""
    made = reservoir_state.empty_state(RESERVOIR_ID)
    made.term = 1
    blob = DataFile(
        {7: b"hello, reservoir"},
        reservoir_id=RESERVOIR_ID,
        file_id=object_keys.bundle_id(1),
        version=1,
    )
    made.pages.put(blob.ids, blob.rows)
    made.files.add(blob.entry)
    writer = CheckpointWriter(
        SimObjects(), made, writer_id=WRITER_ID, snapshot_interval=20, retained_versions=2
    )
    pending = writer.encode(1, meta=b"step one", now_us=WALL_US_START, bundle=blob)
    return bytes(pending.body)
