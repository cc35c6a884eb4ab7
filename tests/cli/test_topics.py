"""Promise: topics are listed, made, shown, altered, deleted and trimmed by name."""

from __future__ import annotations

import re

from tests.cli.conftest import Command


def test_list_shows_every_topic_or_those_of_a_prefix(command: Command):
    for name in ("orders.eu", "orders.us", "logs"):
        command("append", name, "x")

    every = command("topic", "list", "--output", "jsonl").json_lines
    some = command("topic", "list", "orders", "--output", "json").json

    assert [topic["name"] for topic in every] == ["logs", "orders.eu", "orders.us"]
    assert [topic["name"] for topic in some] == ["orders.eu", "orders.us"]


def test_list_is_a_table_for_a_person(command: Command):
    command("topic", "create", "orders", "--ttl", "7d", "--cap-records", "5")
    command("append", "orders", "tea", "cake")

    header, line = command("topic", "list").lines

    assert header.split() == [
        *("TOPIC", "RECORDS", "EARLIEST", "HEAD", "SIZE", "DURABILITY", "TTL", "CAP", "NEWEST")
    ]
    assert line.split()[:-1] == [*("orders", "2", "1", "2", "7", "B", "disk", "7d", "5", "records")]


def test_an_empty_store_has_an_empty_list(command: Command):
    command("append", "only", "x")
    command("topic", "delete", "only", "--yes")

    assert command("topic", "list").out == ""
    assert command("topic", "list", "--output", "json").json == []
    assert command("topic", "list", "--output", "jsonl").out == ""


def test_create_takes_every_option(command: Command):
    options = ["--durability", "fsync", "--ttl", "1h", "--cap-records", "10", "--cap-bytes", "1MiB"]
    options += ["--discard", "reject", "--idempotency-window", "5m", "--no-dedupe-node"]
    options += ["--priority", "7", "--no-auto-priority", "--no-auto-create"]
    options += ["--schema", "price:float", "--schema", 'cur: ["EUR", "USD"] | null']

    made = command("topic", "create", "orders", *options, "--output", "json")
    shown = command("topic", "show", "orders", "--output", "json")

    assert made.json["config"] == {
        "durability": "fsync",
        "ttl_ms": 3_600_000,
        "cap_records": 10,
        "cap_bytes": 1_048_576,
        "discard": "reject",
        "priority": 7,
        "auto_priority": False,
        "auto_create": False,
        "idempotency_window_ms": 300_000,
        "dedupe_node": False,
        "schema": {"price": "f64", "cur": '["EUR","USD"] | null'},
        "schema_version": 1,
        "views": {},
    }
    assert shown.json["config"] == made.json["config"]


def test_show_is_a_list_of_facts_for_a_person(command: Command):
    command("topic", "create", "orders", "--ttl", "90s")

    lines = command("topic", "show", "orders").lines

    facts = dict(re.split(r"  +", line, maxsplit=1) for line in lines)
    assert facts["name"] == "orders"
    assert facts["ttl"] == "90s"
    assert facts["idempotency window"] == "2m"
    assert facts["newest"] == "-"


def test_alter_changes_only_what_is_given(command: Command):
    command("topic", "create", "orders", "--durability", "fsync", "--ttl", "1h")

    answer = command("topic", "alter", "orders", "--cap-records", "3", "--ttl", "0")
    shown = command("topic", "show", "orders", "--output", "json").json["config"]

    assert answer.code == 0
    assert (shown["durability"], shown["cap_records"], shown["ttl_ms"]) == ("fsync", 3, 0)


def test_a_schema_is_shown_changed_and_taken_off(command: Command):
    command("topic", "create", "orders", "--schema", "price:f64", "--schema", "note:string | null")

    shown = command("topic", "show", "orders").out
    changed = command("topic", "alter", "orders", "--schema", "price:i64", "--output", "json").json
    without = command("topic", "alter", "orders", "--no-schema", "--output", "json").json

    assert "price: f64, note: string | null (version 1)" in shown
    assert changed["config"]["schema"] == {"price": "i64"}
    assert (without["config"]["schema"], without["config"]["schema_version"]) == ({}, 3)


def test_a_bad_schema_is_told_by_its_field(command: Command):
    answers = [
        command("topic", "create", "orders", "--schema", text).err
        for text in ("price", "price:decimal", "__seq:u64")
    ]

    assert "as NAME:TYPE" in answers[0]
    assert "field 'price' has no type 'decimal'" in answers[1]
    assert "__seq" in answers[2]


def test_alter_without_a_change_is_refused(command: Command):
    command("topic", "create", "orders")

    answer = command("topic", "alter", "orders")

    assert answer.code == 2
    assert "name an option to alter" in answer.err


def test_delete_takes_the_topic_with_its_records(command: Command):
    command("append", "orders", "tea")

    refused = command("topic", "delete", "orders", "--if-empty")
    answer = command("topic", "delete", "orders", "--yes", "--output", "json")

    assert refused.code == 2
    assert answer.json == {"topic": "orders", "deleted": True, "records": 1}
    assert command("topic", "show", "orders").code == 2


def test_trim_deletes_below_a_seq_and_by_tag(command: Command):
    for tag in ("eu-1", "eu-2", "us"):
        command("append", "orders", "x", "y", "--tag", tag)

    by_tag = command("topic", "trim", "orders", "--match", "eu-2", "--yes", "--output", "json").json
    below = command("topic", "trim", "orders", "--before", "3", "-y", "--output", "json").json
    left = command("read", "orders", "--output", "jsonl").json_lines
    silent = command("topic", "trim", "orders")

    assert (by_tag["deleted"], below["deleted"]) == (2, 2)
    assert [record["seq"] for record in left] == [5, 6]
    assert silent.code == 2


def test_checkpoint_leaves_the_records_where_they_were(command: Command, data_dir: str):
    command("append", "orders", "tea", "cake")
    before = command("read", "orders", "--output", "json").json

    answer = command("checkpoint", "--output", "json")

    assert answer.json["checkpointed"] is True
    assert command("read", "orders", "--output", "json").json == before
