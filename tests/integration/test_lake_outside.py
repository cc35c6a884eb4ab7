"""Promise: a lake in a real object store is read by others through its url alone."""

from __future__ import annotations

import pyarrow.compute as pc

import strandline
from tests.integration.conftest import Remote
from tests.unit.lake.small_lake import fill, open_small


def test_a_lake_in_a_real_store_is_listed_and_read_without_a_store(remote: Remote, data_dir: str):
    service = remote.service
    url = f"{service.scheme}://{remote.bucket}/some/prefix"
    options = service.options_at(service.port)
    with open_small(data_dir, objects=remote.open()) as store:
        fill(store).delete(match="odd", before=101)
        store.relocate()

    facts = strandline.lake.files(url, "orders", options=options)
    rows = strandline.lake.dataset(url, "orders", options=options)

    assert [file.url.startswith(f"{url}/topics/") for file in facts.files] == [True] * 4
    assert rows.count_rows() == 350
    assert rows.to_table(filter=pc.field("seq") <= 10)["data"].to_pylist() == [
        b"2",
        b"4",
        b"6",
        b"8",
        b"10",
    ]
