"""Promise: jobs are put, claimed and settled by tickets from any process; the dead are seen to.

Whoever holds no lease can settle nothing, and is told so with an exit code.
"""

from __future__ import annotations

import pytest

import strandline
from strandline.cli.errors import FAILED, LOCKED, WRONG_USE
from tests.cli.conftest import SECONDS_MAX, Command, Program, Terminal


@pytest.fixture
def mails(command: Command) -> Command:
    command("queue", "put", "mails", "a", "b", "c")
    return command


@pytest.fixture
def dead(command: Command, data_dir: str) -> Command:
    """A queue with four dead letters: two of tag eu-1, one of eu-2, one of a key and no tag."""
    with strandline.open(data_dir) as store:
        queue = store.queue("mails", deliveries_max=1)
        queue.put_many([b"first", b"second"], tag="eu-1")
        queue.put(b"third", tag="eu-2", group="g")
        queue.put(b"fourth", key="k")
        for job in queue.claim(10):
            job.nack()
        assert queue.claim(10) == []
        assert queue.dead.count() == 4
    return command


def test_put_tells_the_seqs_of_its_jobs(command: Command):
    first = command("queue", "put", "mails", "a", "b", "--output", "json")
    second = command("queue", "put", "mails", "c")

    assert first.json == {"name": "mails", "jobs": 2, "existed": 0, "first_seq": 1, "last_seq": 2}
    assert second.lines == ["name  mails", "jobs  1", "seqs  3"]


def test_lines_of_stdin_become_jobs_in_batches(program: Program, data_dir: str):
    answer = program.run(
        *("queue", "put", "mails", "--batch", "2", "--output", "jsonl"), stdin=b"a\nb\nc\n"
    )

    assert sum(batch["jobs"] for batch in answer.json_lines) == 3
    assert all(batch["jobs"] <= 2 for batch in answer.json_lines)
    with strandline.open(data_dir, readonly=True) as store:
        assert [job.data for job in store.queue("mails").peek(10)] == [b"a", b"b", b"c"]


def test_what_was_put_before_a_failure_is_told(program: Program):
    too_long = b"x" * (1 << 20) + b"y"

    answer = program.run(
        *("queue", "put", "mails", "--batch", "1", "--output", "json"), stdin=b"a\n" + too_long
    )

    assert answer.code == WRONG_USE
    assert answer.json["jobs"] == 1


def test_a_job_of_a_key_that_waits_is_not_put_twice(command: Command):
    first = command("queue", "put", "mails", "a", "--key", "k", "--output", "json").json
    second = command("queue", "put", "mails", "b", "--key", "k", "--output", "json").json

    assert (first["existed"], second["existed"]) == (0, 1)
    assert second["last_seq"] == first["last_seq"]
    assert _waiting(command) == ["a"]


def test_what_is_said_of_a_job_counts(command: Command):
    command("queue", "put", "mails", "last", "--priority", "200")
    command("queue", "put", "mails", "first", "--priority", "1", "--ttl", "1h", "--tag", "t")
    command("queue", "put", "mails", "open", "pay", "--group", "ada")
    command("queue", "put", "mails", "later", "--delay", "1h")
    command("queue", "put", "mails", "long ago", "--at", "2020-01-01T00:00:00Z")

    stats = command("queue", "stats", "mails", "--output", "json").json

    assert _waiting(command) == ["first", "open", "long ago", "last"]
    assert (stats["ready"], stats["delayed"], stats["blocked"], stats["waiting"]) == (4, 1, 1, 6)


def test_a_claimed_job_is_acked_by_its_ticket_in_another_process(mails: Command):
    jobs = mails("queue", "claim", "mails", "--max", "2", "--output", "json").json
    done = mails("queue", "ack", "mails", *(job["ticket"] for job in jobs), "--output", "json")

    assert [(job["data"], job["deliveries"]) for job in jobs] == [("a", 1), ("b", 1)]
    assert done.json == {"name": "mails", "done": 2, "skipped": []}
    assert _numbers(mails) == {"ready": 1, "in_flight": 0}


def test_a_claim_is_a_table_for_a_person(mails: Command):
    header, line = mails("queue", "claim", "mails").lines

    assert header.split() == ["TICKET", "DELIVERIES", "LEASE", "ENDS", "KEY", "TAG", "DATA"]
    assert line.split()[-1] == "a"


def test_who_holds_no_lease_settles_nothing(mails: Command):
    ticket = mails("queue", "claim", "mails", "--output", "json").json[0]["ticket"]
    mails("queue", "ack", "mails", ticket)

    again = mails("queue", "ack", "mails", ticket, "--output", "json")
    nack = mails("queue", "nack", "mails", ticket)
    extend = mails("queue", "extend", "mails", "1:1")

    assert [answer.code for answer in (again, nack, extend)] == [FAILED, FAILED, FAILED]
    assert again.json == {"name": "mails", "done": 0, "skipped": [1]}
    assert "1 of 1 jobs are not held" in again.err


def test_a_job_that_is_given_back_is_claimed_again(mails: Command):
    first = mails("queue", "claim", "mails", "--output", "json").json[0]
    mails("queue", "nack", "mails", first["ticket"])
    second = mails("queue", "claim", "mails", "--output", "json").json[0]
    delayed = mails("queue", "nack", "mails", second["ticket"], "--delay", "1h")

    assert (second["data"], second["deliveries"]) == ("a", 2)
    assert second["ticket"] != first["ticket"]
    assert delayed.code == 0
    assert _waiting(mails) == ["b", "c"]


def test_a_job_can_be_kept_for_longer(mails: Command):
    job = mails("queue", "claim", "mails", "--lease", "1s", "--output", "json").json[0]

    kept = mails("queue", "extend", "mails", job["ticket"], "--lease", "1h", "--output", "json")

    assert kept.json["done"] == 1
    assert job["deadline"] - job["ts"] > 0
    assert _numbers(mails) == {"ready": 2, "in_flight": 1}


def test_what_a_worker_holds_is_given_back_at_once(mails: Command):
    mails("queue", "claim", "mails", "--max", "2", "--worker", "w1")
    mails("queue", "claim", "mails", "--worker", "w2")

    released = mails("queue", "release", "mails", "w1", "--output", "json").json

    assert released["released"] == 2
    assert _numbers(mails) == {"ready": 2, "in_flight": 1}


def test_a_claim_may_wait_and_finds_nothing(command: Command):
    command("view", "create", "queue", "mails")

    table = command("queue", "claim", "mails", "--wait", "1ms")
    json = command("queue", "claim", "mails", "--output", "json")

    assert (table.code, table.out) == (0, "")
    assert json.json == []


def test_a_paused_queue_gives_out_nothing_until_it_goes_on(mails: Command):
    paused = mails("queue", "pause", "mails", "--output", "json").json
    while_paused = mails("queue", "claim", "mails", "--output", "json").json
    resumed = mails("queue", "resume", "mails", "--output", "json").json
    after = mails("queue", "claim", "mails", "--output", "json").json

    assert (paused["paused"], resumed["paused"]) == (True, False)
    assert (len(while_paused), len(after)) == (0, 1)


def test_peeking_works_beside_the_writer_and_claiming_does_not(mails: Command, data_dir: str):
    with strandline.open(data_dir) as store:
        store.queue("mails").put(b"d")
        peek = mails("queue", "peek", "mails", "--output", "json")
        stats = mails("queue", "stats", "mails", "--output", "json")
        letters = mails("queue", "dead", "list", "mails")
        claim = mails("queue", "claim", "mails")
        put = mails("queue", "put", "mails", "e")

    assert [job["data"] for job in peek.json] == ["a", "b", "c", "d"]
    assert (stats.json["ready"], letters.code) == (4, 0)
    assert (claim.code, put.code) == (LOCKED, LOCKED)


def test_a_queue_in_which_nothing_has_died_can_be_looked_at(command: Command, data_dir: str):
    with strandline.open(data_dir) as store:
        store.queue("mails").put(b"a")

    letters = command("queue", "dead", "list", "mails", "--output", "json")
    stats = command("queue", "stats", "mails", "--output", "json")
    shown = command("view", "show", "queue", "mails", "--output", "json")

    assert letters.json == []
    assert stats.json["dead"] == shown.json["dead"] == 0


def test_dead_letters_are_listed_from_a_cursor_on(dead: Command):
    first = dead("queue", "dead", "list", "mails", "--limit", "2")
    rest = dead("queue", "dead", "list", "mails", "--after", "2", "--output", "json").json

    assert [line.split()[-1] for line in first.lines[1:]] == ["first", "second"]
    assert "--after 2" in first.err
    assert [(letter["data"], letter["group"], letter["key"]) for letter in rest] == [
        ("third", "g", None),
        ("fourth", None, "k"),
    ]
    assert (rest[0]["job_seq"], rest[0]["deliveries"], rest[0]["reason"]) == (3, 1, "deliveries")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], 4),
        (["--tag", "eu-1"], 2),
        (["--tag", "eu-*"], 3),
        (["--key", "k"], 1),
        (["--group", "g"], 1),
        (["--contains", "ir"], 2),
        (["--contains", "ir", "--tag", "eu-1"], 1),
        (["--seq", "1", "--seq", "4"], 2),
        (["--before", "2020-01-01T00:00:00Z"], 0),
        (["--limit", "3"], 3),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_redrive_is_of_those_that_are_meant(dead: Command, options, expected: int):
    tried = dead("queue", "dead", "redrive", "mails", "--dry-run", *options, "--output", "json")
    before = _numbers(dead)
    done = dead("queue", "dead", "redrive", "mails", *options, "--output", "json").json

    assert tried.json == {
        "matched": expected,
        "redriven": expected,
        "kept": [],
        "dry_run": True,
    }
    assert before == {"ready": 0, "in_flight": 0}
    assert (done["redriven"], done["dry_run"]) == (expected, False)
    assert _numbers(dead) == {"ready": expected, "in_flight": 0}


def test_a_purge_needs_a_yes(dead: Command):
    refused = dead("queue", "dead", "purge", "mails")
    tried = dead("queue", "dead", "purge", "mails", "--tag", "eu-1", "--dry-run")
    done = dead("queue", "dead", "purge", "mails", "--tag", "eu-1", "--yes", "--output", "json")
    left = dead("queue", "dead", "list", "mails", "--output", "json").json

    assert refused.code == WRONG_USE
    assert "--yes" in refused.err
    assert tried.code == 0
    assert done.json == {"name": "mails", "purged": 2, "dry_run": False}
    assert [letter["data"] for letter in left] == ["third", "fourth"]


def test_a_person_is_asked_before_a_purge(dead: Command, program: Program, terminal: Terminal):
    process = program.start(
        *("queue", "dead", "purge", "mails"), stdin=terminal.theirs, stderr=terminal.theirs
    )
    terminal.wait_for("Delete 4 dead letters of 'mails'? [y/N]")
    terminal.type("y\n")

    assert process.wait(SECONDS_MAX) == 0
    assert dead("queue", "dead", "list", "mails", "--output", "json").json == []


@pytest.mark.parametrize(
    ("tokens", "message", "hint"),
    [
        (["stats", "mals"], "no topic 'mals'", "did you mean 'mails'?"),
        (["stats", "plain"], "'plain' has no queue view", "strandline view create queue plain"),
        (["put", "plain", "x"], "'plain' has no queue view", "strandline view create queue plain"),
        (["put", "mails", "x", "--priority", "256"], "priority is 0 to 255", "--help"),
        (["put", "mails", "x", "--delay", "soon"], "'soon' is not a duration", "--help"),
        (["put", "mails", "x", "--delay", "1s", "--at", "1"], "not both", "--help"),
        (["put", "mails", "x", "--at", "noon"], "'noon' is not a time", "--help"),
        (["put", "mails", "x", "y", "--key", "k"], "--key is for one job", "--help"),
        (["put", "mails", "x", "--batch", "0"], "--batch 0", "--help"),
        (["put", "mails", "x", "--prority", "1"], "--prority", "--priority"),
        (["claim", "mails", "--max", "0"], "claim 1 to", "--help"),
        (["claim", "mails", "--lease", "0"], "a lease of 0", "--help"),
        (["claim", "mails", "--wait", "x"], "'x' is not a duration", "--help"),
        (["ack", "mails"], "name the jobs", "--help"),
        (["ack", "mails", "17"], "'17' is not a ticket", "strandline queue claim"),
        (["ack", "mails", "1:" + "9" * 80], "is not a ticket", "strandline queue claim"),
        (["release", "mails", ""], "name the worker", "--help"),
        (["peek", "mails", "--max", "-1"], "peek at 1 to", "--help"),
        (["clam", "mails"], '"clam"', 'did you mean "claim"?'),
        (["dead", "lst", "mails"], '"lst"', 'did you mean "list"?'),
        (["dead", "list", "mails", "--limit", "0"], "--limit", "--help"),
        (["dead", "redrive", "mails", "--limit", "0"], "--limit", "--help"),
        (["dead", "redrive", "mails", "--before", "x"], "'x' is not a time", "--help"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)
def test_a_wrong_request_is_two_lines(mails: Command, tokens, message: str, hint: str):
    mails("append", "plain", "x")

    answer = mails("queue", *tokens)

    first, second = answer.err.splitlines()
    assert answer.code == WRONG_USE
    assert message in first
    assert hint in second


def _waiting(command: Command) -> list[str]:
    jobs = command("queue", "peek", "mails", "--output", "json").json
    return [job["data"] for job in jobs]


def _numbers(command: Command) -> dict[str, int]:
    stats = command("queue", "stats", "mails", "--output", "json").json
    return {name: stats[name] for name in ("ready", "in_flight")}
