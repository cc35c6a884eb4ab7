"""Promise: what is done with a directory is done with a server, by the same words.

A real server answers. Every test has topics of its own.
"""

from __future__ import annotations

import signal

import pytest

from tests.cli.conftest import SECONDS_MAX, Remote, read_until, stop
from tests.server.running import running

ONLY_FILES = [
    ["verify"],
    ["repair", "--dry-run"],
    ["inspect"],
    ["checkpoint"],
    ["lake", "topics"],
    ["lake", "relocate"],
    ["backup", "--to", "elsewhere"],
    ["pipeline", "run", "export", "--topic", "t", "--to", "elsewhere"],
]


def test_topics_are_created_listed_shown_altered_trimmed_and_removed(remote: Remote):
    made = remote("topic", "create", "a.orders", "--ttl", "1h", "--output", "json")
    remote("append", "a.orders", "tea", "cake", "--tag", "eu")
    listed = remote("topic", "ls", "a.", "--output", "json")
    altered = remote("topic", "alter", "a.orders", "--ttl", "0", "--output", "json")
    trimmed = remote("topic", "trim", "a.orders", "--match", "e*", "--yes", "--output", "json")
    info = remote("topic", "info", "a.orders", "--output", "json")
    removed = remote("topic", "rm", "a.orders", "--yes", "--output", "json")
    again = remote("topic", "info", "a.orders")

    assert made.json["config"]["ttl_ms"] == 3_600_000
    assert [(each["name"], each["count"]) for each in listed.json] == [("a.orders", 2)]
    assert altered.json["config"]["ttl_ms"] == 0
    assert trimmed.json["deleted"] == 2
    assert info.json["head_seq"] == 2
    assert removed.json["deleted"] is True
    assert again.code == 2


def test_records_are_appended_and_read_in_every_shape(remote: Remote):
    lines = b'{"data": "tea", "key": "k1", "tag": "eu"}\n{"data_base64": "/wA="}\n'

    appended = remote("append", "b.t", "--ndjson", "--output", "json", stdin=lines)
    again = remote("append", "b.t", "x", "--idempotency-key", "once", "--output", "json")
    repeated = remote("append", "b.t", "x", "--idempotency-key", "once", "--output", "json")
    late = remote("append", "b.t", "y", "--expected-head", "1")
    read = remote("read", "b.t", "--output", "jsonl")
    behind = remote("read", "b.t", "--after", "2", "--output", "csv")
    newest = remote("tail", "b.t", "-n", "1", "--output", "jsonl")

    assert appended.json["last_seq"] == 2
    assert (again.json["deduped"], repeated.json["deduped"]) == (False, True)
    assert late.code == 1
    assert [line.get("data") for line in read.json_lines] == ["tea", None, "x"]
    assert read.json_lines[0]["key"] == "k1"
    assert read.json_lines[1]["data_base64"] == "/wA="
    assert behind.lines[0] == "seq,ts,key,tag,node,meta,data"
    assert behind.lines[1].startswith("3,")
    assert [line["seq"] for line in newest.json_lines] == [3]


def test_tail_is_told_what_others_append(remote: Remote):
    topic = remote.server.store.topic("c.news")
    topic.append(b"before")
    tail = remote.program.start("tail", "c.news", "-f", "-n", "1", "--output", "jsonl")
    first = read_until(tail.stdout, b"before")

    topic.append_many([b"during"] * 3)
    then = read_until(tail.stdout, b'"seq":4')
    tail.send_signal(signal.SIGINT)
    code = tail.wait(SECONDS_MAX)

    assert first.count(b"\n") == 1
    assert then.count(b"during") == 3
    assert code == 130
    assert tail.stderr.read() == b""


def test_tail_tells_all_of_a_topic_that_was_made_anew(remote: Remote):
    store = remote.server.store
    store.topic("d.news").append_many([b"old"] * 3)
    tail = remote.program.start("tail", "d.news", "-f")
    read_until(tail.stdout, b"3  ")
    stop(tail)
    store.delete_topic("d.news")
    store.topic("d.news").append_many([b"new"] * 2)
    tail.send_signal(signal.SIGCONT)
    store.topic("d.news").append(b"newest")

    seen = read_until(tail.stdout, b"newest")

    notice, behind = seen.split(b" are gone (recreated) --\n")
    assert b"-- records" in notice
    assert behind.count(b"new\n") == 2
    assert behind.count(b"newest") == 1


def test_tail_goes_on_when_the_server_comes_back(remote: Remote, tmp_path):
    with running(tmp_path) as first:
        first.store.topic("news").append(b"one")
        bind = f"{first.host}:{first.port}"
        remote.program.environment["STRANDLINE_URL"] = first.url
        tail = remote.program.start("tail", "news", "-f", "--output", "jsonl")
        read_until(tail.stdout, b"one")
    with running(tmp_path, bind=bind) as second:
        second.store.topic("news").append(b"two")
        seen = read_until(tail.stdout, b"two")
        tail.send_signal(signal.SIGINT)
        tail.wait(SECONDS_MAX)

    assert seen.count(b"\n") == 1


def test_keys_are_put_got_listed_counted_and_removed(remote: Remote):
    remote("kv", "put", "d.p", "ada", '{"city": "London"}')
    remote("kv", "put", "d.p", "ada", '{"city": "Paris"}')
    remote("kv", "incr", "d.p", "count", "--by", "3")
    got = remote("kv", "get", "d.p", "ada", "--raw")
    listed = remote("kv", "ls", "d.p", "--output", "jsonl")
    part = remote("kv", "json", "get", "d.p", "ada", "$.city", "--output", "json")
    stale = remote("kv", "put", "d.p", "ada", "x", "--version", "1")
    history = remote("kv", "history", "d.p", "ada", "--output", "jsonl")
    removed = remote("kv", "rm", "d.p", "ada", "--output", "json")
    gone = remote("kv", "get", "d.p", "ada")

    assert got.out == '{"city": "Paris"}'
    assert [line["key"] for line in listed.json_lines] == ["ada", "count"]
    assert part.json["value"] == "Paris"
    assert stale.code == 1
    assert len(history.json_lines) >= 1
    assert removed.json["deleted"] is True
    assert (gone.code, gone.err.splitlines()[1]) == (
        1,
        "hint: `strandline kv ls d.p` lists the keys",
    )


def test_jobs_are_put_claimed_settled_given_up_and_redriven(remote: Remote):
    remote("view", "create", "queue", "e.q", "--option", "deliveries_max=1")
    remote("queue", "put", "e.q", "one", "two", "--tag", "eu")
    peeked = remote("queue", "peek", "e.q", "--output", "jsonl")
    claimed = remote("queue", "claim", "e.q", "-n", "2", "--worker", "w", "--output", "jsonl")
    first, second = (line["ticket"] for line in claimed.json_lines)
    acked = remote("queue", "ack", "e.q", first, "--output", "json")
    remote("queue", "nack", "e.q", second)
    remote("queue", "claim", "e.q", "--worker", "w")
    dead = remote("queue", "dlq", "e.q", "--output", "jsonl")
    dry = remote("queue", "redrive", "e.q", "--tag", "e*", "--dry-run", "--output", "json")
    driven = remote("queue", "redrive", "e.q", "--contains", "two", "--output", "json")
    stats = remote("queue", "stats", "e.q", "--output", "json")

    assert [line["data"] for line in peeked.json_lines] == ["one", "two"]
    assert acked.json["done"] == 1
    assert [line["data"] for line in dead.json_lines] == ["two"]
    assert (dry.json["matched"], dry.json["dry_run"]) == (1, True)
    assert driven.json["redriven"] == 1
    assert (stats.json["ready"], stats.json["dead"]) == (1, 0)


def test_points_are_written_listed_and_read(remote: Remote):
    remote("series", "write", "f.gps", "bus", "1,2", "--at", "10")
    remote("series", "write", "f.gps", "bus", "3,4", "--at", "20")
    read = remote("series", "range", "f.gps", "bus", "--from", "15", "--output", "jsonl")
    listed = remote("series", "ls", "f.gps", "--output", "jsonl")

    assert [line["payload"] for line in read.json_lines] == ["3,4"]
    assert [(line["source"], line["newest_at"]) for line in listed.json_lines] == [("bus", 20)]


def test_measurements_are_written_and_asked_for(remote: Remote):
    lines = b"cpu,host=a load=0.5\ncpu,host=b load=0.7\n"

    written = remote("metrics", "write", "g.usage", "--output", "json", stdin=lines)
    answer = remote("metrics", "query", "g.usage", "cpu[1h] | max", "--output", "jsonl")
    ruled = remote("metrics", "rule", "keep", "g.usage", "cpu", "30d")
    rules = remote("metrics", "rule", "ls", "g.usage", "--output", "json")

    assert written.json["lines"] == 2
    assert [line["value"] for line in answer.json_lines] == [0.7]
    assert ruled.code == 0
    assert [each["kind"] for each in rules.json] == ["keep"]


def test_questions_and_commands_are_answered(remote: Remote):
    remote("append", "h_t", "a", "b", "--tag", "eu")
    rows = remote("sql", "select tag, count(*) as n from h_t group by tag", "--output", "csv")
    wrong = remote("sql", "select nothing from h_t")
    remote("run", 'DEFINE h_pay FIELDS {amount: "u64"}')
    remote("run", 'STORE h_pay FOR u PAYLOAD {"amount": 5}')
    total = remote("run", "QUERY h_pay TOTAL amount", "--output", "jsonl")
    slip = remote("run", "QUERI h_pay")

    assert rows.out == "tag,n\neu,2\n"
    assert (wrong.code, wrong.err.count("\n")) == (2, 2)
    assert list(total.json_lines[0].values()) == [5]
    assert (slip.code, slip.err.count("\n")) == (2, 2)


def test_views_and_groups_are_listed_and_moved(remote: Remote):
    remote("kv", "put", "i.p", "a", "1")
    remote.server.store.topic("i.t").append_many([b"x"] * 3)
    remote.server.store.group("i.t", "mine").join("m").leave()

    views = remote("view", "ls", "--output", "jsonl")
    shown = remote("view", "show", "kv", "i.p", "--output", "json")
    digest = remote("view", "digest", "kv", "i.p", "--output", "json")
    rebuilt = remote("view", "rebuild", "kv", "i.p", "--output", "json")
    moved = remote("group", "seek", "i.t", "mine", "--to", "latest", "--output", "json")
    listed = remote("group", "ls", "i.t", "--output", "json")

    assert ("kv", "i.p") in [(line["kind"], line["name"]) for line in views.json_lines]
    assert shown.json["head_seqs"] == [1]
    assert rebuilt.json[0]["digest"] == digest.json["digest"]
    assert moved.json["lag"] == 0
    assert [each["group"] for each in listed.json] == ["mine"]


def test_doctor_and_bench_look_at_the_server(remote: Remote):
    doctor = remote("doctor", "--output", "jsonl")
    bench = remote("bench", "--seconds", "0.01", "--output", "jsonl")

    assert doctor.code == 0, doctor.out
    assert "server" in [line["what"] for line in doctor.json_lines if line["state"] == "ok"]
    assert len(bench.json_lines) == 5, bench.err
    assert remote.server.store.topics("strandline-bench") == []


@pytest.mark.parametrize("tokens", ONLY_FILES, ids=" ".join)
def test_what_needs_the_files_of_a_store_says_so(remote: Remote, tokens):
    answer = remote(*tokens)

    message, hint = answer.err.splitlines()
    assert answer.code == 2
    assert (
        message
        == "error: this command reads the files of a store, and STRANDLINE_URL names a server"
    )
    assert "--store DIR" in hint


@pytest.mark.parametrize(
    ("tokens", "message", "hint"),
    [
        (["read", "z.ordrs"], "no topic 'z.ordrs'", "did you mean 'z.orders'?"),
        (["read", "no name"], "no topic", ""),
        (["kv", "get", "z.orders", "k"], "has no kv view", "view create kv"),
        (["queue", "ack", "z.orders", "7"], "is not a ticket", "queue claim"),
        (["append", "z.orders", "x", "--expected-head", "99"], "", "topic info"),
        (["sql", "select 1", "--timezone", "Europe/Berlin"], "in UTC", ""),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_wrong_is_two_lines(remote: Remote, tokens, message, hint):
    remote.server.store.topic("z.orders")

    answer = remote(*tokens)

    first, second = answer.err.splitlines()
    assert answer.code in (1, 2)
    assert message in first
    assert hint in second


def test_a_server_that_is_not_there_is_told_soon(remote: Remote):
    answer = remote("read", "t", "--url", "http://127.0.0.1:9")

    first, second = answer.err.splitlines()
    assert answer.code == 1
    assert "http://127.0.0.1:9 does not respond" in first
    assert "doctor" in second


def test_a_token_lets_in_as_far_as_it_reaches_and_is_printed_nowhere(
    remote: Remote, tmp_path, monkeypatch
):
    with running(tmp_path, tokens={"reader": "read:*"}) as guarded:
        guarded.store.topic("t").append(b"hello")
        guarded.store.kv("p").put("k", b"v")
        secret = guarded.tokens["reader"]
        (tmp_path / "token").write_text(secret)
        url = ["--url", guarded.url]
        known = [*url, "--token-file", str(tmp_path / "token")]
        nobody = remote("read", "t", *url)
        monkeypatch.setenv("STRANDLINE_TOKEN", f"{secret[:-3]}abc")
        wrong = remote("read", "t", *url)
        read = remote("read", "t", *known, "--output", "jsonl")
        got = remote("kv", "get", "p", "k", *known, "--raw")
        written = remote("append", "t", "x", *known)
        monkeypatch.setenv("STRANDLINE_DEBUG", "1")
        traced = remote("append", "t", "x", *known)

    assert (nobody.code, wrong.code, written.code) == (1, 1, 1)
    assert "--token-file" in nobody.err
    assert "may not write" in written.err
    assert [line["data"] for line in read.json_lines] == ["hello"]
    assert got.out == "v"
    for answer in (nobody, wrong, read, got, written, traced):
        assert secret not in answer.out + answer.err
        assert secret[20:] not in answer.out + answer.err


def test_a_pipe_of_records_goes_from_one_server_to_a_directory(remote: Remote, data_dir: str):
    remote.server.store.topic("j.t").append_many([b"a", b"\xff"], tags=["x", None])
    read = remote("read", "j.t", "--output", "jsonl", stdin=b"")

    copied = remote("append", "copy", "--ndjson", "--store", data_dir, stdin=read.out.encode())
    there = remote("read", "copy", "--store", data_dir, "--output", "jsonl")

    assert copied.code == 0, copied.err
    assert there.json_lines[0]["tag"] == "x"
    assert there.json_lines[1]["data_base64"] == "/w=="


def test_tokens_are_made_listed_and_revoked_by_the_server(remote: Remote, tmp_path, monkeypatch):
    with running(tmp_path, tokens={"root": "all"}) as guarded:
        monkeypatch.setenv("STRANDLINE_URL", guarded.url)
        monkeypatch.setenv("STRANDLINE_TOKEN", guarded.tokens["root"])
        made = remote(
            "token", "create", "--scopes", "read:*", "--label", "mine", "--output", "json"
        )
        listed = remote("token", "ls", "--output", "json")
        table = remote("token", "ls")
        revoked = remote("token", "revoke", made.json["id"], "--output", "json")
        every = remote("token", "revoke", "--all")
        monkeypatch.setenv("STRANDLINE_TOKEN", made.json["token"])
        ended = remote("topic", "ls")

    assert made.json["token"].startswith("strand1_")
    assert [each["label"] for each in listed.json] == ["root", "mine"]
    assert made.json["token"] not in listed.out + table.out
    assert revoked.json["valid"] is False
    assert (every.code, ended.code) == (2, 1)


def test_routers_are_made_listed_and_removed_by_the_server(remote: Remote):
    remote.server.store.topic("k.from").append(b"x")
    made = remote("router", "put", "k.all", "k.from", "k.to", "--from-start", "--output", "json")
    listed = remote("router", "ls", "--source", "k.from", "--output", "json")
    shown = remote("router", "show", "k.all", "--output", "json")
    removed = remote("router", "rm", "k.all")
    gone = remote("router", "show", "k.all")

    assert made.code == removed.code == 0, made.err
    assert [each["router"] for each in listed.json] == ["k.all"]
    assert shown.json["dest"] == "k.to"
    assert gone.code == 2
