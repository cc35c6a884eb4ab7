"""Promise: what docs/format/lake.md says of the lake's files is what the writer writes."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from strandline.lake.files.record_columns import SCHEMA
from strandline.lake.manifest.file_entry import LakeFile
from tests.house.tree import read_document
from tests.unit.lake.cold_files import plain_rows, write

PAGE = "docs/format/lake.md"
_ENCODINGS = {"dictionary": "RLE_DICTIONARY"}


@pytest.fixture(scope="module")
def metadata() -> pq.FileMetaData:
    rows = [(*row[:4], "node", b"meta", row[6]) for row in plain_rows(range(1, 100))]
    return pq.read_metadata(pa.BufferReader(write(rows).content))


def _rows(pattern: str) -> list[tuple[str, ...]]:
    return re.findall(pattern, read_document(PAGE), re.MULTILINE)


def test_the_page_lists_every_column_and_how_it_is_stored(metadata):
    told = _rows(r"^\| `(\w+)` \| (INT64|BYTE_ARRAY)[^|]* \| (yes|no) \| (\w+) \|$")

    assert [(name, nulls == "yes") for name, _, nulls, _ in told] == [
        (field.name, field.nullable) for field in SCHEMA
    ]
    for place, (name, kind, _, encoding) in enumerate(told):
        column = metadata.row_group(0).column(place)
        assert column.physical_type == kind, name
        assert _ENCODINGS.get(encoding, encoding) in column.encodings, name
        assert column.has_dictionary_page == (encoding == "dictionary"), name


def test_the_page_lists_every_key_of_the_metadata(metadata):
    told = _rows(r"^\| `(strandline\.\w+)` \|")

    kept = [key.decode() for key in metadata.metadata if key.startswith(b"strandline.")]
    assert sorted(told) == sorted(kept)


def test_the_page_lists_as_many_fields_as_an_entry_has():
    ((fields),) = _rows(r"^\| entry \| (.*) \|$")

    assert len(fields.split(",")) == len(LakeFile.__struct_fields__)
