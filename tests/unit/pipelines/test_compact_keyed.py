"""Promise: a compaction by key drops what nobody can see of a key-value topic, and nothing else."""

from __future__ import annotations

import shutil

import pytest

import strandline
from strandline.config.settings import LakeSettings, SegmentSettings, Settings
from strandline.errors import Invalid, UnknownTopic
from strandline.lake import external_reader
from strandline.pipelines import compact_keyed, rebuild
from tests.unit.pipelines.lives import open_lively
from tests.unit.pipelines.owners import owner

ALL = LakeSettings(dead_share=0.0)
KEYS = 20
VERSIONS = 50


def make(path: str, *, history: int = 2, grace_ms: int = 86_400_000) -> str:
    """Versions of a few keys in the lake; nobody has used the view meanwhile. Its digest."""
    with open_lively(path) as store:
        store.views.open("kv", "k", {"history": history, "grace_ms": grace_ms})
    with open_lively(path) as store:
        topic = store.topic("k")
        for version in range(VERSIONS):
            keys = [b"key-%d" % key for key in range(KEYS)]
            for key in keys:
                topic.append(b"%s %d" % (key, version), key=key)
            store._checkpointer.checkpoint()
            store._sealer.run_once()
        store.relocate()
    with open_lively(path, checkpoint_records=10**9) as store:
        return store.views.digest("kv", "k")


def rows(path: str) -> list[tuple[int, bytes]]:
    table = external_reader.dataset(f"{path}/lake", "k").to_table()
    return sorted(zip(table["seq"].to_pylist(), table["key"].to_pylist(), strict=True))


@pytest.mark.parametrize("is_open", [False, True])
def test_only_the_versions_that_the_history_allows_stay_in_the_lake(data_dir, is_open):
    expected = make(data_dir)
    before = len(rows(data_dir))
    assert before > 500

    if is_open:
        with owner(data_dir):
            done = compact_keyed(data_dir, ["k"], settings=ALL)
    else:
        done = compact_keyed(data_dir, ["k"], settings=ALL)

    left = rows(data_dir)
    assert done.released_records == KEYS * (VERSIONS - 2)
    assert len(left) < KEYS * 4
    with strandline.open(data_dir) as store:
        assert store.views.digest("kv", "k") == expected
        store.rebuild("kv", "k")
        assert store.views.digest("kv", "k") == expected
        kv = store.kv("k")
        assert [len(kv.history(b"key-%d" % key)) for key in range(KEYS)] == [2] * KEYS
        assert store.topic("k").statistics().count == KEYS * 2


def test_deleted_keys_go_after_their_grace_and_not_before(data_dir):
    make(data_dir, grace_ms=0)
    with open_lively(data_dir) as store:
        for key in range(10):
            store.kv("k").delete(b"key-%d" % key)
        store.views.alter("kv", "k", grace_ms=86_400_000)

    compact_keyed(data_dir, settings=ALL)

    with open_lively(data_dir) as store:
        assert store.topic("k").statistics().count == KEYS * 2, "one version, and the marker"
        store.views.alter("kv", "k", grace_ms=0)
    compact_keyed(data_dir, settings=ALL)
    assert {key for _, key in rows(data_dir)} <= {b"key-%d" % key for key in range(10, KEYS)}
    assert rebuild(data_dir, "kv", "k").same


def test_a_view_that_is_far_behind_is_folded_by_tasks_first(data_dir):
    expected = make(data_dir)
    shutil.rmtree(f"{data_dir}/views")
    shown: list[str] = []

    compact_keyed(
        data_dir,
        settings=ALL,
        behind_max=10,
        progress=lambda step, _done, _total: shown.append(step),
    )

    assert {"read", "fold"} <= set(shown)
    with strandline.open(data_dir) as store:
        assert store.views.digest("kv", "k") == expected


def test_a_topic_with_another_view_keeps_every_record(data_dir):
    make(data_dir)
    with open_lively(data_dir) as store:
        store.series("k")
    before = rows(data_dir)

    done = compact_keyed(data_dir, settings=ALL)

    assert done.released_records == 0
    assert rows(data_dir) == before


def open_at(path: str, url: str) -> strandline.Store:
    settings = Settings(
        segment=SegmentSettings(seal_records=200, own_bytes_min=1),
        lake=LakeSettings(url=url, hot_segments=1, file_bytes=1),
    )
    return strandline.open(path, settings=settings, start_jobs=False)


def make_beside(path: str, lake: str) -> str:
    """Versions of one key in the log alone; a lake, if there is one, has another topic. Its url."""
    url = f"{path}-lake" if "url" in lake else ""
    with open_at(path, url) as store:
        if "another topic" in lake:
            other = store.topic("other")
            for _ in range(3):
                other.append([b"row"] * 200)
                store._checkpointer.checkpoint()
                store._sealer.run_once()
            store.relocate()
        kv = store.kv("k", history=2)
        for version in range(VERSIONS):
            kv.put("key", b"%d" % version)
    return url


@pytest.mark.parametrize("lake", ["", "url", "another topic", "url, another topic"])
@pytest.mark.parametrize("names", [["k"], ["k*"], [], ["k", "other*"]])
def test_a_topic_that_is_not_in_the_lake_yet_lets_go_however_it_is_named(data_dir, lake, names):
    url = make_beside(data_dir, lake)

    done = compact_keyed(data_dir, names, settings=ALL, lake=url)

    assert done.released_records == VERSIONS - 2
    assert (done.topics == 1) is ("another topic" in lake and names not in (["k"], ["k*"]))


@pytest.mark.parametrize("lake", ["", "url", "another topic", "url, another topic"])
@pytest.mark.parametrize(
    ("names", "settings", "error"),
    [
        (["k", "typo"], ALL, UnknownTopic),
        (["k"], LakeSettings(file_bytes=0), Invalid),
    ],
)
def test_a_mistake_in_the_request_is_an_error_before_a_record_goes(
    data_dir, lake, names, settings, error
):
    url = make_beside(data_dir, lake)

    with pytest.raises(error, match=r"typo|file_bytes"):
        compact_keyed(data_dir, names, settings=settings, lake=url)

    with open_at(data_dir, url) as store:
        assert store.topic("k").statistics().count == VERSIONS


def test_a_topic_that_was_deleted_and_made_again_lets_go_though_the_lake_knew_the_old_one(data_dir):
    make(data_dir)
    with open_lively(data_dir) as store:
        store.delete_topic("k")
        store.relocate()
        kv = store.kv("k", history=2)
        for version in range(VERSIONS):
            kv.put("key", b"%d" % version)

    assert compact_keyed(data_dir, ["k"], settings=ALL).released_records == VERSIONS - 2
