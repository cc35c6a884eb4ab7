"""Promise: what docs/format/lake.md says of manifests is what a ledger writes."""

from __future__ import annotations

import re

import msgspec

from strandline.lake.manifest import manifest_codec
from strandline.lake.manifest.manifest import Manifest
from strandline.lake.manifest.manifest_codec import ManifestHeader, ManifestKey
from tests.house.tree import read_document

STORE_ID = bytes(range(16))
FIRST = Manifest(number=1, topic_id=1, name="orders", epoch=3, created_us=1_700_000_000_000_000)


def _section() -> str:
    return read_document("docs/format/lake.md").partition("## Manifest")[2]


def _example() -> bytes:
    found = re.search(r"^```json\n(.*?)^```", _section(), re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1].encode()


def test_the_example_is_what_is_written_and_read():
    attempt = "00112233445566778899aabbccddeeff"

    data, version = manifest_codec.encode(FIRST, None, store_id=STORE_ID, attempt=attempt)

    assert data == _example()
    assert manifest_codec.apply_object(None, _example(), ManifestKey(STORE_ID, 1, 1)) == version


def test_the_page_names_every_field():
    _, version = manifest_codec.encode(FIRST, None, store_id=STORE_ID, attempt="")
    second = msgspec.structs.replace(FIRST, number=2)
    delta, _ = manifest_codec.encode(second, version, store_id=STORE_ID, attempt="")

    fields = {*ManifestHeader.__struct_fields__, *FIRST.__struct_fields__}
    for line in (*_example().splitlines(), *delta.splitlines()):
        fields |= set(msgspec.json.decode(line))

    assert [field for field in fields if f"`{field}`" not in _section()] == []
