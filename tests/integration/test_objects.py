"""Promise: every object store behaves the same, real ones, a folder and the simulated one (O2-O7).

What the lake rests on: of many creators one wins, an object is whole, a listing is in order and
complete, ranges are exact, and absence is told.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from strandline.errors import Invalid, NotFound, ObjectExists
from strandline.platform.disk import OsDisk
from strandline.platform.objectstore.cloud import open_objects
from strandline.platform.objectstore.probe import probe
from strandline.platform.objectstore.protocol import Objects

CREATORS = 16
MIB = 1024 * 1024
WRONG_KEYS = [
    *("", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "a/./b", ".hidden", "a/.aside"),
    *("a b", "a\\b", "a\x00b", "a\nb", "ä", "a%2fb", "a?b", "a#b", "a:b", "a+b", "é"),
    "x" * 513,
]


def test_of_many_creators_of_one_key_exactly_one_wins(objects: Objects):
    bodies = [b"attempt %d" % number for number in range(CREATORS)]
    start = threading.Barrier(CREATORS)

    def race(body: bytes) -> bytes | None:
        start.wait()
        try:
            objects.create("manifest/7", body)
        except ObjectExists:
            return None
        return body

    with ThreadPoolExecutor(CREATORS) as pool:
        winners = [body for body in pool.map(race, bodies) if body is not None]

    assert len(winners) == 1
    assert objects.get("manifest/7") == winners[0]


def test_a_created_object_is_recognised_by_its_bytes_and_a_strangers_is_not(objects: Objects):
    first = objects.create("manifest/1", b"by writer-a", writer="writer-a")

    again = objects.create("manifest/1", b"by writer-a", writer="writer-a")

    assert (first.recognised, again.recognised) == (False, True)
    for stranger in (b"by writer-b", b"by a longer writer-b", b""):
        with pytest.raises(ObjectExists, match="manifest/1"):
            objects.create("manifest/1", stranger)
    assert objects.get("manifest/1") == b"by writer-a"


def test_a_body_without_its_writers_id_is_refused(objects: Objects):
    with pytest.raises(Invalid, match="writer-a"):
        objects.create("manifest/1", b"anonymous", writer="writer-a")

    with pytest.raises(NotFound):
        objects.get("manifest/1")


def test_what_was_put_is_read(objects: Objects):
    bodies = [b"", b"x", bytearray(b"abc"), memoryview(b"abcdef")[2:4]]
    for number, data in enumerate(bodies):
        assert objects.put(f"data/{number}.parquet", data) == len(data)

    infos = [objects.head(f"data/{number}.parquet") for number in range(len(bodies))]

    assert [objects.get(info.key) for info in infos] == bodies
    assert [info.size for info in infos] == [len(data) for data in bodies]
    assert all(info.modified_us > 0 for info in infos)
    assert all(info.etag is None or '"' not in info.etag for info in infos)


def test_an_absent_object_is_not_found(objects: Objects):
    for ask in (
        lambda: objects.get("absent"),
        lambda: objects.head("absent"),
        lambda: objects.get_range("absent", 0, 1),
        lambda: objects.get_range("absent", 0, 0),
        lambda: objects.get_ranges("absent", [(0, 1), (5, 2)]),
    ):
        with pytest.raises(NotFound, match="absent"):
            ask()


def test_ranges_are_exact(objects: Objects):
    data = random.Random(1).randbytes(3 * MIB)
    objects.put("data", data)
    ranges = [(2 * MIB, 10), (0, 3), (5, 0), (3, 7), (3 * MIB - 4, 4), (1, 5), (0, 3 * MIB)]

    found = objects.get_ranges("data", ranges)

    assert found == [data[start : start + length] for start, length in ranges]
    assert objects.get_ranges("data", []) == []
    assert objects.get_range("data", 100, 50) == data[100:150]


def test_a_range_behind_the_end_is_refused_and_never_short(objects: Objects):
    objects.put("data", b"0123456789")

    for wanted in [(0, 11), (8, 3), (10, 1), (11, 1), (5000, 10)]:
        with pytest.raises(Invalid, match="ends at byte 10"):
            objects.get_range("data", *wanted)
        with pytest.raises(Invalid, match="ends at byte 10"):
            objects.get_ranges("data", [(0, 2), wanted])


def test_a_range_before_the_start_is_refused(objects: Objects):
    objects.put("data", b"0123456789")

    for wanted in [(-1, 5), (3, -2)]:
        with pytest.raises(Invalid):
            objects.get_range("data", *wanted)


def test_a_listing_is_in_the_order_of_keys_and_stays_in_its_folder(objects: Objects):
    inside = ["a/b", "a/b-c/d", "a/b.c", "a/b0", "a/B", "a/b1/x/y", "a/c=1/z"]
    for key in [*inside, "a-b", "ab/c", "b"]:
        objects.put(key, key.encode())

    listed = [(info.key, info.size) for info in objects.list("a")]

    assert listed == [(key, len(key)) for key in sorted(inside)]
    assert [info.key for info in objects.list("a/")] == sorted(inside)
    assert [info.key for info in objects.list()] == sorted([*inside, "a-b", "ab/c", "b"])
    assert list(objects.list("absent")) == []
    assert list(objects.list("b")) == []


def test_a_listing_begins_behind_a_key(objects: Objects):
    keys = ["a/1", "a/2-0/3", "a/2-0/4", "a/3", "b/1"]
    for key in keys:
        objects.put(key, b"")

    behind = {
        after: [info.key for info in objects.list("a", after)]
        for after in ("a", "a/1", "a/2", "a/2-0/3", "a/3", "zzz")
    }

    assert behind == {
        "a": keys[:4],
        "a/1": keys[1:4],
        "a/2": keys[1:4],
        "a/2-0/3": keys[2:4],
        "a/3": [],
        "zzz": [],
    }


def test_a_listing_of_more_than_one_page_is_complete(objects: Objects):
    keys = [f"many/{number:05}" for number in range(1203)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: objects.put(key, b"."), keys))

    listed = [info.key for info in objects.list("many")]
    rest = [info.key for info in objects.list("many", keys[1000])]

    assert listed == keys
    assert rest == keys[1001:]


def test_many_objects_are_deleted_at_once(objects: Objects):
    keys = [f"many/{number:05}" for number in range(40)]
    for key in keys:
        objects.put(key, b".")

    objects.delete(keys[1:])

    assert [info.key for info in objects.list()] == keys[:1]


def test_more_objects_than_one_request_takes_are_deleted():
    objects = open_objects("memory://")
    keys = [f"many/{number:05}" for number in range(2100)]
    for key in keys:
        objects.put(key, b".")

    objects.delete(keys[1:])

    assert [info.key for info in objects.list()] == keys[:1]


def test_deleting_what_is_absent_is_fine(objects: Objects):
    objects.put("a/1", b"x")
    objects.put("a/2", b"x")

    objects.delete(["absent", "a/1", "a/absent"])
    objects.delete(["a/1"])
    objects.delete([])

    assert [info.key for info in objects.list()] == ["a/2"]
    with pytest.raises(NotFound):
        objects.get("a/1")


def test_a_deleted_name_can_be_created_again(objects: Objects):
    objects.create("name", b"first")
    objects.delete(["name"])

    created = objects.create("name", b"second")

    assert not created.recognised
    assert objects.get("name") == b"second"


def test_a_large_stream_arrives_whole(objects: Objects, tmp_path: Path):
    chunks = [random.Random(seed).randbytes(3 * MIB + seed) for seed in range(7)]
    whole = b"".join(chunks)
    (tmp_path / "file").write_bytes(whole)
    file = OsDisk().open_read(str(tmp_path / "file"))

    sizes = (objects.put_stream("stream", iter(chunks)), objects.put_file("file", file))
    file.close()

    assert sizes == (len(whole), len(whole))
    for key in ("stream", "file"):
        assert objects.head(key).size == len(whole)
        assert objects.get_range(key, 17 * MIB, 100_000) == whole[17 * MIB :][:100_000]
    assert objects.get("stream") == whole
    assert objects.put_stream("empty", []) == 0
    assert objects.get("empty") == b""


def test_a_stream_that_breaks_leaves_nothing(objects: Objects):
    def breaks() -> Iterator[bytes]:
        yield bytes(9 * MIB)
        raise ZeroDivisionError("the source broke")

    with pytest.raises(ZeroDivisionError, match="the source broke"):
        objects.put_stream("stream", breaks())

    assert list(objects.list()) == []


def test_a_key_that_stores_would_not_agree_on_is_refused(objects: Objects):
    for key in WRONG_KEYS:
        for use in (
            lambda key=key: objects.create(key, b""),
            lambda key=key: objects.put(key, b""),
            lambda key=key: objects.put_stream(key, []),
            lambda key=key: objects.get(key),
            lambda key=key: objects.get_range(key, 0, 1),
            lambda key=key: objects.head(key),
            lambda key=key: objects.delete([key]),
        ):
            with pytest.raises(Invalid, match="not an object key"):
                use()


def test_keys_of_every_allowed_kind_are_taken_as_they_are(objects: Objects):
    keys = [
        "UPPER",
        "lower",
        "a.b_c-d=e",
        "-",
        "_",
        "=",
        "a/b/c/d/e/f/g",
        "p=2026-11-16/x..parquet",
    ]
    keys.append("/".join(["x" * 100] * 5))
    for key in keys:
        objects.create(key, key.encode())

    found = {info.key: objects.get(info.key) for info in objects.list()}

    assert found == {key: key.encode() for key in keys}


def test_the_probe_accepts_the_store_and_leaves_nothing(objects: Objects):
    objects.put("kept", b"")

    probe(objects)

    assert [info.key for info in objects.list()] == ["kept"]


def test_many_threads_may_use_one_store(objects: Objects):
    def work(number: int) -> bool:
        data = os.urandom(1000 + number)
        objects.create(f"t/{number}", data)
        return objects.get(f"t/{number}") == data and objects.head(f"t/{number}").size == len(data)

    with ThreadPoolExecutor(8) as pool:
        fine = list(pool.map(work, range(64)))

    assert all(fine)
    assert len(list(objects.list("t"))) == 64
