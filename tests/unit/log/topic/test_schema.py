"""Promise: a topic's schema is checked when it is given, and its versions are counted for good."""

from __future__ import annotations

import msgspec
import pytest

from strandline.config.settings import TopicConfig, topic_config
from strandline.errors import Invalid
from strandline.log.wal import control_messages
from strandline.schema import FIELDS_MAX, SIZE_MAX, FieldType, parse_type
from tests.unit.log.topic.cold_world import ColdWorld

SALES = {"price": "f64", "note": "string | null"}


def configured(**options: object) -> TopicConfig:
    return topic_config(TopicConfig(), options)


@pytest.mark.parametrize(
    ("written", "kept", "kind"),
    [
        ("VARCHAR", "string", FieldType("string")),
        ("uint64", "u64", FieldType("u64")),
        ("integer|NULL", "i64 | null", FieldType("i64", (), True)),
        (" number ", "f64", FieldType("f64")),
        ("boolean", "bool", FieldType("bool")),
        ("timestamp  |  null", "datetime | null", FieldType("datetime", (), True)),
        ("date", "date", FieldType("date")),
        (["b", "a | null"], '["b","a | null"]', FieldType("enum", ("b", "a | null"))),
        ('[ "ü" ] | null', '["ü"] | null', FieldType("enum", ("ü",), True)),
    ],
)
def test_a_type_is_kept_in_one_way_to_write_it(written, kept, kind):
    config = configured(schema={"x": written})

    assert config.schema == {"x": kept}
    assert parse_type(kept, "x") == kind
    assert configured(schema=config.schema) == config


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"x": "decimal"}, "schema field 'x' has no type 'decimal': types are string, u64"),
        ({"x": "null"}, "'x' has no type 'null'"),
        ({"x": 7}, "the type of schema field 'x' is text"),
        ({"x": ["a", 1]}, "the type of schema field 'x' is text"),
        ({"x": "[a]"}, """'x': an enum is written ["a","b"]"""),
        ({"x": []}, "'x': an enum has 1 to 256 strings"),
        ({"x": ["a", "a"]}, "'x': an enum has 1 to 256 strings"),
        ({"x": ["a", ""]}, "'x': an enum has 1 to 256 strings"),
        ({"x": [str(number) for number in range(257)]}, "'x': an enum has 1 to 256 strings"),
        ({"": "f64"}, "schema field '' is not a name"),
        ({"a b": "f64"}, "schema field 'a b' is not a name"),
        ({"7up": "f64"}, "schema field '7up' is not a name"),
        ({"__filename": "f64"}, "schema field '__filename' is not a name"),
        ({"_": "f64"}, "schema field '_' is not a name"),
        ({"_7": "f64"}, "schema field '_7' is not a name"),
        ({"a-b": "f64"}, "schema field 'a-b' is not a name"),
        ({"a.b": "f64"}, "schema field 'a.b' is not a name"),
        ({"\u200b": "f64"}, "is not a name"),
        ({"x" * 129: "f64"}, "is not a name"),
        ({3: "f64"}, "schema field 3 is not a name"),
        ({"a": "f64", "A": "f64"}, "'a' and 'A' differ by capital letters alone"),
        ({"ü": "f64", "Ü": "f64"}, "'ü' and 'Ü' differ by capital letters alone"),
        ({"s": "f64", "\u017f": "f64"}, "differ by capital letters alone"),
        ({"k": "f64", "\u212a": "f64"}, "differ by capital letters alone"),
        ({"i": "f64", "\u0130": "f64"}, "differ by capital letters alone"),
        ({f"f{number}": "f64" for number in range(FIELDS_MAX + 1)}, "at most 512 fields, not 513"),
        ({"x": ["v" * SIZE_MAX]}, "at most 65536 bytes"),
        ("price:f64", "schema is a map of fields to types, not str"),
        (None, "schema is a map of fields to types, not NoneType"),
    ],
)
def test_what_is_wrong_with_a_schema_is_told_by_its_field(schema, told):
    with pytest.raises(Invalid) as error:
        configured(schema=schema)

    assert told in str(error.value)


NAMES = ["seq", "Data", "topic", "lost", "key", "from", "_x", "ü", "цена", "価格", "मूल्य", "ราคา"]


@pytest.mark.parametrize("name", NAMES)
def test_a_field_is_a_word_of_any_script_also_that_of_a_column(name):
    config = configured(schema={name: "f64"})

    assert config.schema == {name: "f64"}
    assert configured(schema=config.schema) == config


def test_the_version_counts_changes_and_nothing_else():
    first = configured(schema=SALES)
    same = topic_config(first, {"schema": dict(reversed(SALES.items())), "ttl_ms": 7})
    second = topic_config(same, {"schema": {"price": "i64"}})
    without = topic_config(second, {"schema": {}})

    versions = [each.schema_version for each in (TopicConfig(), first, same, second, without)]

    assert versions == [0, 1, 1, 2, 3]
    assert list(same.schema) == list(SALES)


def test_the_version_cannot_be_set():
    with pytest.raises(Invalid, match="unknown topic option 'schema_version'"):
        configured(schema_version=3)


def test_a_schema_is_kept_with_the_topic_through_restarts_and_for_other_readers():
    world = ColdWorld()
    world.store.topic("sales", schema=SALES).alter(schema=SALES | {"cur": ["EUR"]})

    from_the_log = world.kill().topic("sales").config
    world.store.checkpoint()
    from_a_root = world.reopen().topic("sales").config
    with world.open(readonly=True) as reader:
        elsewhere = reader.topic("sales").config

    assert from_the_log == from_a_root == elsewhere
    assert elsewhere.schema == SALES | {"cur": '["EUR"]'}
    assert elsewhere.schema_version == 2


def test_a_topic_with_another_schema_is_told_apart():
    store = ColdWorld().store
    store.topic("sales", schema=SALES)

    assert store.topic("sales", schema={"note": "text | null", "price": "float"}).head_seq == 0
    assert store.topic("sales").config.schema_version == 1
    with pytest.raises(Invalid, match="other options"):
        store.topic("sales", schema={"price": "f64"})


def test_a_topic_of_an_older_store_has_no_schema():
    told = msgspec.structs.asdict(TopicConfig(ttl_ms=5))
    del told["schema"], told["schema_version"]
    message = msgspec.msgpack.encode(["create", "old", told, 3])

    assert control_messages.decode(message).config == TopicConfig(ttl_ms=5)
