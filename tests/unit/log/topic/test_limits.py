"""Promise (H6, B1): what is wrong with a call is said before anything happens, and harms nobody.

Every case here must raise ``Invalid`` or a kind of it, assign no seq, and leave the store usable.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from strandline.config.settings import LimitSettings
from strandline.errors import Invalid, TooLarge, UnknownTopic
from tests.unit.store.world import World, payloads

LIMITS = LimitSettings(record_bytes_max=1000, batch_records_max=10, batch_bytes_max=4000)
SURROGATE = "\ud800"
NOT_UTF8 = pa.Array.from_buffers(
    pa.string(), 1, [None, pa.py_buffer(np.array([0, 1], "<i4")), pa.py_buffer(b"\xff")]
)


def _unharmed(world: World) -> None:
    topic = world.store.topic("t")
    assert topic.append(b"fine").first_seq == 1
    assert payloads(world.kill().topic("t")) == [b"fine"]


BAD_DATA = [None, 5, 1.5, "text", {}, {b"a": 1}, {b"a"}, [None], [1], [[b"a"]], object()]
BAD_DATA += [bytearray(b"a"), memoryview(b"a"), iter([b"a"])]
BAD_DATA += [["text"], [b"a", "text"], [bytearray(b"a")], [b"a", None], range(3), np.array([1, 2])]


@pytest.mark.parametrize("data", BAD_DATA, ids=lambda data: repr(data).split(" at ")[0])
def test_a_record_that_is_not_bytes_is_refused(data):
    world = World()
    topic = world.store.topic("t")

    for append in (topic.append, topic.append_many, topic.append_nowait):
        with pytest.raises(Invalid):
            append(data)

    _unharmed(world)


def test_one_record_is_no_list_of_records():
    topic = World().store.topic("t")

    with pytest.raises(Invalid, match="use append for one"):
        topic.append_many(b"abc")

    assert topic.head_seq == 0


def test_the_complaint_names_the_record_or_value_that_is_wrong():
    topic = World().store.topic("t")
    good = [b"x"] * 5

    for call in (topic.append, topic.append_many, topic.append_nowait):
        with pytest.raises(Invalid, match="record 3 is str, not bytes"):
            call([b"a", b"b", b"c", "d", b"e"])
    with pytest.raises(Invalid, match="tag 2 is bytes: give text or None"):
        topic.append_many(good, tags=["a", None, b"c", "d", "e"])
    with pytest.raises(Invalid, match="meta 0 is str: give bytes or None"):
        topic.append_many(good, metas=["text"] * 5)

    assert topic.head_seq == 0


def test_kinds_of_bytes_and_text_are_bytes_and_text():
    topic = World().store.topic("t")
    names = np.array(["eu", "us"])

    topic.append_many(np.array([b"a", b"b"]), tags=list(names), keys=["k", b"k"])

    assert [(record.data, record.tag, record.key) for record in topic.read().records] == [
        (b"a", "eu", b"k"),
        (b"b", "us", b"k"),
    ]
    assert topic.delete(match="eu").deleted == 1


@pytest.mark.parametrize("head", ["x", "0", 0.0, b"0", [], True, -1], ids=repr)
def test_a_head_that_is_no_seq_is_a_wrong_request_and_no_conflict(head):
    world = World()
    topic = world.store.topic("t")
    table = pa.table({"data": [b"x"]})

    for call, data in (
        (topic.append, b"x"),
        (topic.append, [b"x"]),
        (topic.append_nowait, b"x"),
        (topic.append_many, [b"x"]),
        (topic.append_arrow, table),
    ):
        with pytest.raises(Invalid, match="expected_head"):
            call(data, expected_head=head)

    _unharmed(world)


@pytest.mark.parametrize(
    "options",
    [
        {"key": 5},
        {"key": bytearray(b"k")},
        {"key": SURROGATE},
        {"tag": b"eu"},
        {"tag": 5},
        {"tag": SURROGATE},
        {"node": b"n"},
        {"node": SURROGATE},
        {"meta": "text"},
        {"meta": 5},
        {"idempotency_key": 5},
        {"idempotency_key": bytearray(b"k")},
        {"idempotency_key": SURROGATE},
        {"idempotency_key": ["k"]},
        {"colour": "blue"},
    ],
    ids=repr,
)
def test_a_field_of_the_wrong_kind_is_refused(options):
    world = World()
    topic = world.store.topic("t")

    for data in (b"x", [b"x", b"y"]):
        for append in (topic.append, topic.append_nowait):
            with pytest.raises(Invalid):
                append(data, **options)

    _unharmed(world)


@pytest.mark.parametrize(
    "columns",
    [
        {"keys": [b"a"]},
        {"tags": ["a", "b", "c"]},
        {"nodes": []},
        {"metas": [b"a"] * 5},
        {"keys": iter([b"a", b"b"])},
        {"keys": np.array([b"a", b"b"], dtype=object)},
        {"tags": pa.array(["a", "b"])},
        {"tags": {"a", "b"}},
        {"tags": [1, 2]},
        {"tags": [SURROGATE, "a"]},
        {"tags": [b"\xff", b"a"]},
        {"tags": [b"eu", b"us"]},
        {"tags": b"eu"},
        {"tags": SURROGATE},
        {"nodes": [b"n", None]},
        {"metas": ["text", None]},
        {"metas": "text"},
        {"keys": [5, None]},
        {"expected_head": "x"},
        {"nodes": 5},
        {"metas": [1.5, None]},
        {"idempotency_key": 7},
    ],
    ids=lambda columns: next(iter(columns)),
)
def test_a_column_that_does_not_fit_is_refused(columns):
    world = World()

    with pytest.raises(Invalid):
        world.store.topic("t").append_many([b"x", b"y"], **columns)

    _unharmed(world)


@pytest.mark.parametrize(
    "batch",
    [
        None,
        "text",
        [b"a"],
        pa.array([b"a"]),
        pa.record_batch({"payload": pa.array([b"a"])}),
        pa.record_batch({"data": pa.array([b"a"]), "extra": pa.array([1])}),
        pa.RecordBatch.from_arrays([pa.array([b"a"])] * 2, names=["data", "data"]),
        pa.record_batch({"data": pa.array([1])}),
        pa.record_batch({"data": pa.array([b"a", None])}),
        pa.record_batch({"data": pa.array([["a"]])}),
        pa.record_batch({"data": pa.array([b"a"]), "tag": pa.array([5])}),
        pa.record_batch({"data": pa.array([b"a"]), "tag": pa.array([b"\xff"])}),
        pa.record_batch({"data": pa.array([b"a"]), "node": NOT_UTF8}),
        pa.record_batch({"data": pa.array([], pa.binary())}),
        pa.table({"data": pa.chunked_array([], pa.binary())}),
    ],
    ids=str,
)
def test_an_arrow_batch_that_does_not_fit_is_refused(batch):
    world = World()

    with pytest.raises(Invalid):
        world.store.topic("t").append_arrow(batch)

    _unharmed(world)


@pytest.mark.parametrize(
    ("field", "fits", "over"),
    [
        ("key", b"k" * 4096, b"k" * 4097),
        ("tag", "t" * 256, "t" * 257),
        ("tag", "ü" * 128, "ü" * 129),
        ("node", "n" * 128, "n" * 129),
        ("meta", b"m" * 16384, b"m" * 16385),
        ("idempotency_key", b"i" * 256, b"i" * 257),
        ("idempotency_key", b"i", b""),
    ],
)
def test_a_field_over_its_limit_is_refused(field, fits, over):
    topic = World().store.topic("t")
    single = [b"x"] if field == "idempotency_key" else b"x"

    for data in (b"x", [b"x", b"y"]):
        with pytest.raises(TooLarge):
            topic.append(data, **{field: over})
    if field != "idempotency_key":
        with pytest.raises(TooLarge):
            topic.append_many([b"x"], **{f"{field}s": [over]})

    assert topic.append(single, **{field: fits}).first_seq == 1


def test_a_record_or_batch_over_its_limit_is_refused_and_one_at_it_is_not():
    topic = World(limits=LIMITS).store.topic("t")
    record = pa.record_batch({"data": pa.array([b"x" * 1001])})

    for call in (
        lambda: topic.append(b"x" * 1001),
        lambda: topic.append([b"x" * 1001]),
        lambda: topic.append_many([b"", b"x" * 1001]),
        lambda: topic.append_arrow(record),
        lambda: topic.append_many([b""] * 11),
        lambda: topic.append_many([b"x" * 1000] * 4),
        lambda: topic.append([]),
        lambda: topic.append_many([]),
    ):
        with pytest.raises(TooLarge):
            call()

    assert topic.append(b"x" * 1000).first_seq == 1
    assert topic.append_many([b"x" * 300] * 10).last_seq == 11


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "a/b",
        "../a",
        "a\\b",
        "a b",
        "a\0",
        "a\n",
        "ü",
        "-a",
        "_a",
        ":a",
        ".hidden",
        "x" * 256,
        5,
        None,
        b"bytes",
        [],
        "%2f",
    ],
    ids=repr,
)
def test_a_name_that_is_none_is_refused(name):
    store = World().store

    for call in (store.topic, store.create_topic):
        with pytest.raises(Invalid):
            call(name)
    with pytest.raises(UnknownTopic):
        store.existing_topic(name)

    assert not store.delete_topic(name)
    assert store.topics() == []


@pytest.mark.parametrize("name", ["a", "A1", "0", "a.b_c:d-e", "CON", "x" * 255])
def test_a_plain_name_is_taken_and_never_becomes_a_path(name):
    world = World()

    world.store.topic(name).append(b"x")
    world.store.checkpoint()

    assert world.store.topics() == [name]
    assert name == "0" or not any(f"/{name}" in path for path in world.files())


@pytest.mark.parametrize(
    "options",
    [
        {"durability": "maybe"},
        {"durability": None},
        {"discard": "new"},
        {"ttl_ms": -1},
        {"ttl_ms": "5"},
        {"ttl_ms": 1.5},
        {"ttl_ms": 2**62},
        {"ttl_ms": 2**70},
        {"cap_records": -1},
        {"cap_bytes": 2**64},
        {"idempotency_window_ms": 2**63},
        {"dedupe_node": "yes"},
        {"colour": "blue"},
        {"name": "x"},
    ],
    ids=repr,
)
def test_an_option_that_is_none_is_refused(options):
    world = World()
    topic = world.store.topic("t")

    with pytest.raises(Invalid):
        topic.alter(**options)
    if "name" not in options:
        for call in (world.store.topic, world.store.create_topic):
            with pytest.raises(Invalid):
                call("other", **options)

    assert world.store.topics() == ["t"]
    _unharmed(world)


def test_the_largest_options_work():
    world = World()
    most = {"ttl_ms": 2**53, "cap_records": 2**53, "cap_bytes": 2**53}
    topic = world.store.topic("t", idempotency_window_ms=2**53, **most)

    topic.append(b"x", idempotency_key="k")
    world.store.checkpoint()

    assert payloads(topic) == [b"x"]
    assert world.reopen().topic("t").append(b"x", idempotency_key="k").deduped


def test_the_topics_of_the_store_itself_do_not_count():
    store = World(limits=LimitSettings(topics_max=2)).store
    store.topic("a")

    store.routers.put("r", source="a", dest="b")

    assert store.topics() == ["a", "b", "strandline.routers"]
    with pytest.raises(TooLarge, match="topics_max"):
        store.routers.put("r2", source="a", dest="c")
    assert [each.router.name for each in store.routers.list()] == ["r"]


def test_the_store_takes_only_so_many_topics():
    store = World(limits=LimitSettings(topics_max=2)).store
    store.topic("a")
    store.topic("b")

    with pytest.raises(TooLarge, match="topics_max"):
        store.topic("c")
    store.delete_topic("a")

    assert store.topic("c").append(b"x").first_seq == 1
