"""Promise: keys are read beside whoever writes, changed under conditions, and watched as they come.

What is put is a record of the topic like any other, and a plain append is a put.
"""

from __future__ import annotations

import os

import pytest

import strandline
from strandline.cli.errors import FAILED, LOCKED, WRONG_USE
from tests.cli.conftest import SECONDS_MAX, Answer, Command, Program, read_until


@pytest.fixture
def profiles(command: Command, data_dir: str) -> Command:
    """A view with three keys, the last of which was written twice."""
    with strandline.open(data_dir) as store:
        kv = store.kv("profiles")
        for key, value in (("u1", b"Ada"), ("u2", b"Grace"), ("x", b"1"), ("x", b"2")):
            kv.put(key, value)
    return command


def test_what_is_put_can_be_had_again(command: Command):
    made = command("kv", "put", "profiles", "u1", "Ada", "--output", "json")
    found = command("kv", "get", "profiles", "u1", "--output", "json").json

    assert made.json == {"name": "profiles", "key": "u1", "version": 1}
    assert (found["key"], found["value"], found["version"]) == ("u1", "Ada", 1)
    assert found["expires_us"] is None
    assert found["ts"] > 0


def test_a_person_sees_one_fact_per_line(profiles: Command):
    lines = profiles("kv", "get", "profiles", "u1").lines

    assert [line.split()[0] for line in lines] == ["key", "version", "written", "ends", "value"]
    assert lines[-1].split() == ["value", "Ada"]


def test_raw_is_the_value_and_nothing_else(program: Program, data_dir: str):
    with strandline.open(data_dir) as store:
        store.kv("blobs").put("b", b"\xff\n\x00")

    with_raw = program.start("kv", "get", "blobs", "b", "--raw")
    out, _ = with_raw.communicate(timeout=SECONDS_MAX)

    assert out == b"\xff\n\x00"


def test_a_value_may_come_from_stdin_whole(program: Program, data_dir: str):
    answer = program.run("kv", "put", "blobs", "b", stdin=b"two\nlines\xff")

    assert answer.code == 0
    with strandline.open(data_dir, readonly=True) as store:
        assert store.kv("blobs").get("b") == b"two\nlines\xff"


def test_a_value_that_is_too_large_for_a_record_is_refused(program: Program):
    answer = program.run("kv", "put", "blobs", "b", stdin=b"x" * (1 << 21))

    assert answer.code == WRONG_USE
    assert "stdin has more than" in answer.err


def test_bytes_that_are_no_text_are_base64(command: Command):
    command("kv", "put", "blobs", os.fsdecode(b"\xfe"), os.fsdecode(b"\xff"))

    (found,) = command("kv", "scan", "blobs", "--output", "json").json
    table = command("kv", "get", "blobs", os.fsdecode(b"\xfe"))

    assert (found["key_base64"], found["value_base64"]) == ("/g==", "/w==")
    assert table.lines[-1].split() == ["value", "base64:/w=="]


def test_a_plain_append_is_a_put(profiles: Command):
    profiles("append", "profiles", "Hedy", "--key", "u3")

    assert profiles("kv", "get", "profiles", "u3", "--output", "json").json["value"] == "Hedy"


def test_conditions_that_do_not_hold_write_nothing(profiles: Command):
    taken = profiles("kv", "put", "profiles", "u1", "new", "--nx")
    absent = profiles("kv", "put", "profiles", "u9", "new", "--xx")
    moved = profiles("kv", "put", "profiles", "x", "new", "--version", "3")
    kept = profiles("kv", "delete", "profiles", "x", "--version", "3")
    held = profiles("kv", "put", "profiles", "x", "3", "--version", "4", "--output", "json")

    for answer in (taken, absent, moved, kept):
        assert answer.code == FAILED
        assert "hint: `strandline kv get profiles" in answer.err
    assert held.json["version"] == 5
    assert _values(profiles) == {"u1": "Ada", "u2": "Grace", "x": "3"}


def test_a_key_with_a_ttl_has_an_end(command: Command):
    command("kv", "put", "profiles", "u1", "Ada", "--ttl", "1h")

    found = command("kv", "get", "profiles", "u1", "--output", "json").json

    assert 3_590_000_000 < found["expires_us"] - found["ts"] <= 3_600_000_000


def test_delete_tells_whether_the_key_was_there(profiles: Command):
    first = profiles("kv", "delete", "profiles", "u1", "--output", "json").json
    second = profiles("kv", "delete", "profiles", "u1", "--output", "json").json

    assert (first["deleted"], second["deleted"]) == (True, False)
    assert _values(profiles) == {"u2": "Grace", "x": "2"}


def test_a_key_that_is_not_there_is_told_with_an_exit_code(profiles: Command):
    answer = profiles("kv", "get", "profiles", "zz")

    assert (answer.code, answer.out) == (FAILED, "")
    assert answer.err.splitlines() == [
        "error: there is no key 'zz' in 'profiles'",
        "hint: `strandline kv ls profiles` lists the keys",
    ]


def test_a_counter_counts(command: Command):
    first = command("kv", "incr", "hits", "n", "--output", "json").json
    second = command("kv", "incr", "hits", "n", "--by", "-5", "--output", "json").json

    assert (first["value"], second["value"]) == (1, -4)


def test_a_scan_goes_on_behind_its_cursor(profiles: Command):
    first = profiles("kv", "scan", "profiles", "--limit", "2")
    rest = profiles("kv", "scan", "profiles", "--limit", "2", "--after", "u2")

    assert _keys(first) == ["u1", "u2"]
    assert "--after u2" in first.err
    assert (_keys(rest), rest.err) == (["x"], "")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--prefix", "u"], ["u1", "u2"]),
        (["--first", "u2"], ["u2", "x"]),
        (["--next", "u2"], ["u1"]),
        (["--reverse"], ["x", "u2", "u1"]),
        (["--reverse", "--after", "x", "--limit", "1"], ["u2"]),
        (["--prefix", "nothing"], []),
    ],
    ids=" ".join,
)
def test_a_scan_may_be_of_a_part(profiles: Command, options, expected):
    answer = profiles("kv", "scan", "profiles", *options, "--output", "json")

    assert [entry["key"] for entry in answer.json] == expected


def test_a_scan_of_all_ignores_the_limit(command: Command, data_dir: str):
    with strandline.open(data_dir) as store:
        topic = store.topic("many")
        topic.append_many([b"x"] * 2500, keys=[b"%04d" % number for number in range(2500)])
        store.kv("many")

    answer = command("kv", "scan", "many", "--all", "--output", "jsonl")

    assert [line["key"] for line in answer.json_lines] == [f"{n:04}" for n in range(2500)]


def test_history_shows_versions_newest_first(profiles: Command):
    profiles("kv", "delete", "profiles", "x")

    table = profiles("kv", "history", "profiles", "x")
    versions = profiles("kv", "history", "profiles", "x", "--output", "json").json

    assert [(each["version"], each["value"], each["deleted"]) for each in versions] == [
        (5, None, True),
        (4, "2", False),
        (3, "1", False),
    ]
    assert "(deleted)" in table.lines[1]


def test_a_key_can_be_had_as_it_was(profiles: Command):
    ts = profiles("kv", "history", "profiles", "x", "--output", "json").json[1]["ts"]

    by_version = profiles("kv", "get", "profiles", "x", "--version", "3", "--output", "json")
    by_time = profiles("kv", "get", "profiles", "x", "--at", str(ts), "--output", "json")
    before = profiles("kv", "get", "profiles", "x", "--version", "2")

    assert by_version.json["value"] == "1"
    assert by_time.json["value"] == "1"
    assert before.code == FAILED


def test_reading_works_beside_the_writer_and_writing_does_not(profiles: Command, data_dir: str):
    with strandline.open(data_dir) as store:
        store.kv("profiles").put("u3", b"Hedy")
        read = profiles("kv", "get", "profiles", "u3", "--output", "json")
        scan = profiles("kv", "scan", "profiles")
        history = profiles("kv", "history", "profiles", "u3")
        put = profiles("kv", "put", "profiles", "u4", "x")
        compact = profiles("kv", "compact", "profiles")

    assert read.json["value"] == "Hedy"
    assert (scan.code, history.code) == (0, 0)
    assert (put.code, compact.code) == (LOCKED, LOCKED)


def test_watch_shows_what_was_and_ends_when_nothing_comes(profiles: Command):
    every = profiles("kv", "watch", "profiles", "--after", "0", "--timeout", "1ms")
    some = profiles(
        "kv", "watch", "profiles", "--prefix", "u", "--after", "1", "--timeout", "1ms",
        *("--output", "jsonl"),
    )  # fmt: skip
    one = profiles("kv", "watch", "profiles", "x", "--after", "0", "--timeout", "1ms")
    news = profiles("kv", "watch", "profiles", "--timeout", "1ms")

    assert [line.split()[-1] for line in every.lines[1:]] == ["Ada", "Grace", "1", "2"]
    assert [change["value"] for change in some.json_lines] == ["Grace"]
    assert [line.split()[0] for line in one.lines[1:]] == ["3", "4"]
    assert news.out == ""


def test_watch_shows_changes_of_another_process_as_they_come(program: Program, data_dir: str):
    with strandline.open(data_dir) as store:
        kv = store.kv("profiles")
        kv.put("u1", b"Ada")
        watching = program.start("kv", "watch", "profiles", "--after", "0", "--output", "jsonl")
        read_until(watching.stdout, b'"value":"Ada"')
        kv.put("u2", b"Grace")
        store.checkpoint()
        kv.delete("u1")
        store.sync()

        shown = read_until(watching.stdout, b'"deleted":true')

    assert shown.count(b"\n") == 2
    assert b'"key":"u2"' in shown


def test_compact_lets_old_versions_go(command: Command, data_dir: str):
    with strandline.open(data_dir) as store:
        kv = store.kv("profiles", history=1)
        for number in range(10):
            kv.put("n", b"%d" % number)

    done = command("kv", "compact", "profiles", "--output", "json").json
    left = command("read", "profiles", "--output", "jsonl").json_lines

    assert done["released"] == 9
    assert [record["data"] for record in left] == ["9"]


def test_compact_lets_an_ended_key_go_in_one_run(command: Command):
    command("view", "create", "kv", "profiles", "--option", "grace_ms=0")
    command("kv", "put", "profiles", "u1", "Ada", "--ttl", "1ms")

    done = command("kv", "compact", "profiles", "--output", "json").json
    left = command("read", "profiles", "--output", "jsonl").json_lines

    assert (done["expired"], done["forgotten"]) == (1, 1)
    assert "Ada" not in [record["data"] for record in left]


@pytest.mark.parametrize(
    ("tokens", "message", "hint"),
    [
        (["get", "profils", "u1"], "no topic 'profils'", "did you mean 'profiles'?"),
        (["get", "zzz", "u1"], "no topic 'zzz'", "strandline view ls"),
        (["get", "plain", "u1"], "'plain' has no kv view", "strandline view create kv plain"),
        (["put", "plain", "u1", "x"], "'plain' has no kv view", "strandline view create kv plain"),
        (["put", "a/b", "u1", "x"], "cannot name a topic", "--help"),
        (["put", "profiles", "", "x"], "a key has at least one byte", "--help"),
        (["put", "profiles", "k" * 5000, "x"], "a key of 5000 bytes", "smaller pieces"),
        (["put", "profiles", "u1", "x", "--ttl", "soon"], "'soon'", "--help"),
        (["put", "profiles", "u1", "x", "--ttl", "0"], "--ttl", "--help"),
        (["put", "profiles", "u1", "x", "--nx", "--xx"], "nx and xx", "--help"),
        (["put", "profiles", "u1", "x", "--version", "-1"], "version", "--help"),
        (["put", "profiles", "u1", "x", "--verion", "1"], "--verion", "--version"),
        (["get", "profiles", "u1", "--version", "1", "--at", "1"], "not both", "--help"),
        (["get", "profiles", "u1", "--at", "noon"], "'noon' is not a time", "--help"),
        (["get", "profiles"], "KEY", "`strandline kv get --help`"),
        (["gte", "profiles", "u1"], '"gte"', 'did you mean "get"?'),
        (["scan", "profiles", "--limit", "0"], "--limit", "--help"),
        (["scan", "profiles", "--prefix", "u", "--first", "u"], "not both", "--help"),
        (["watch", "profiles", "u1", "--prefix", "u"], "not both", "--help"),
        (["watch", "profiles", "--after", "-1"], "--after", "--help"),
        (["incr", "profiles", "u1", "--by", "x"], "--by", "`strandline kv incr --help`"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)
def test_a_wrong_request_is_two_lines(profiles: Command, tokens, message: str, hint: str):
    profiles("append", "plain", "x")

    answer = profiles("kv", *tokens)

    first, second = answer.err.splitlines()
    assert answer.code == WRONG_USE
    assert message in first
    assert hint in second


@pytest.mark.parametrize("value", ["Ada", "9" * 19])
def test_what_is_no_counter_stays_as_it_is(command: Command, value: str):
    command("kv", "put", "profiles", "u1", value)

    answer = command("kv", "incr", "profiles", "u1")

    assert answer.code == FAILED
    assert _values(command) == {"u1": value}


def _values(command: Command) -> dict[str, str]:
    entries = command("kv", "scan", "profiles", "--output", "json").json
    return {entry["key"]: entry["value"] for entry in entries}


def _keys(answer: Answer) -> list[str]:
    return [line.split()[0] for line in answer.lines[1:]]
