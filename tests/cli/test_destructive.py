"""Promise: nothing is deleted for good without a yes, and the unit of a duration is not guessed.

Commands that delete data ask on a terminal; without one they need ``--yes``. A duration needs a
unit. Both are tried for every command there is: a new command that deletes something, or takes a
duration, fails here until it is in a list.
"""

from __future__ import annotations

import re

import pytest

import strandline
from strandline.cli.errors import WRONG_USE
from strandline.cli.program import make_app
from tests.cli.conftest import Command
from tests.docs.test_command_line import _commands

DELETES = re.compile(r"\b(delete|remove|throw|forget|purge|prune|drop|discard)\b", re.I)
DESTRUCTIVE = {
    "topic rm": ["topic", "rm", "orders"],
    "topic trim": ["topic", "trim", "orders", "--before", "2"],
    "series retain": ["series", "retain", "gps", "--floor", "5"],
    "backup prune": ["backup", "prune", "--keep", "1", "--grace", "0", "--from", "{backups}"],
    "queue purge": ["queue", "purge", "waiting"],
    "queue dead purge": ["queue", "dead", "purge", "mails"],
    "reservoir clean": None,  # tests/cli/test_reservoir.py
}
NOT_ASKED = {
    "kv rm": "one key that is named; the log keeps its record until a compaction",
    "kv json delete": "one member of a value that is named",
    "metrics rule remove": "a rule: no data",
    "token revoke": "access and no data; it is what a damaged store needs first",
    "lake sweep": "files that nothing needs any more; the store does it by itself",
    "view rebuild": "derived state that is folded again from the log",
    "demo": "a folder of its own",
    "context rm": "a name in a file",
    "router rm": "a rule: no data",
    "token create": "makes one",
    "pipeline run rollup": "writes",
    "backup": "writes",
}


@pytest.fixture
def filled(command: Command, data_dir: str, tmp_path) -> Command:
    with strandline.open(data_dir) as store:
        store.topic("orders").append_many([b"tea", b"cake", b"milk"])
        series = store.series("gps")
        for at in range(10):
            series.append("bus", at, b"x")
        queue = store.queue("mails", deliveries_max=1)
        queue.put(b"one")
        (job,) = queue.claim(1)
        job.nack()
        assert queue.claim(1) == []
        store.queue("waiting").put(b"one")
    for _ in range(2):
        command("backup", "--to", str(tmp_path / "backups"))
        command("append", "more", "x")
    return command


def _state(filled: Command, backups: str) -> dict[str, object]:
    """All that the commands could delete."""
    return {
        "orders": filled("read", "orders", "--all", "--output", "jsonl").out,
        "gps": filled("series", "range", "gps", "bus", "--output", "json").out,
        "jobs": filled("queue", "peek", "waiting", "--output", "json").out,
        "dead": filled("queue", "dead", "ls", "mails", "--output", "json").out,
        "backups": filled("backup", "ls", "--from", backups, "--output", "json").out,
    }


@pytest.mark.parametrize("name", [name for name, line in DESTRUCTIVE.items() if line])
def test_without_a_terminal_and_a_yes_nothing_is_deleted(filled: Command, name: str, tmp_path):
    backups = str(tmp_path / "backups")
    line = [token.format(backups=backups) for token in DESTRUCTIVE[name]]
    before = _state(filled, backups)

    refused = filled(*line)
    between = _state(filled, backups)
    done = filled(*line, "--yes")

    assert (refused.code, done.code) == (WRONG_USE, 0), (refused.err, done.err)
    assert "nothing was deleted" in refused.err
    assert "--yes" in refused.err
    assert between == before
    assert _state(filled, backups) != before


def test_every_command_that_deletes_is_in_one_of_the_lists():
    app = make_app()
    deleting = set()
    for name in _commands(app):
        found = app
        for word in name.split():
            found = found[word]
        if DELETES.search(found.help or ""):
            deleting.add(name)

    assert deleting - DESTRUCTIVE.keys() - NOT_ASKED.keys() == set()
    assert set(DESTRUCTIVE) <= set(_commands(app))


def test_an_empty_topic_and_if_empty_need_no_yes(filled: Command):
    filled("topic", "create", "empty")

    assert filled("topic", "rm", "empty").code == 0
    refused = filled("topic", "rm", "orders", "--if-empty")
    assert refused.code != 0
    assert "orders" in filled("topic", "ls").out


DURATIONS = {
    "topic create --ttl": ["topic", "create", "t"],
    "topic create --idempotency-window": ["topic", "create", "t"],
    "topic alter --ttl": ["topic", "alter", "orders"],
    "kv put --ttl": ["kv", "put", "profiles", "a", "x"],
    "kv watch --timeout": ["kv", "watch", "profiles", "--after", "0"],
    "queue put --delay": ["queue", "put", "mails", "x"],
    "queue put --ttl": ["queue", "put", "mails", "x"],
    "queue claim --lease": ["queue", "claim", "mails"],
    "queue claim --wait": ["queue", "claim", "mails"],
    "queue nack --delay": ["queue", "nack", "mails", "1-1"],
    "queue extend --lease": ["queue", "extend", "mails", "1-1"],
    "group alter --lease": ["group", "alter", "orders", "billing"],
    "token create --valid": ["token", "create", "--scopes", "all"],
    "backup prune --grace": ["backup", "prune", "--keep", "1", "--from", "b", "--yes"],
    "metrics rule downsample --window": [
        *("metrics", "rule", "downsample", "usage", "cpu", "--into", "cpu_1h")
    ],
    "metrics rule downsample --delay": [
        *("metrics", "rule", "downsample", "usage", "cpu", "--into", "cpu_1h", "--window", "1h")
    ],
    "demo --for": ["demo", "--no-pipeline"],
}
NO_DURATION = {"group alter --window", "sql --timezone"}
"""A number of records; the name of a zone."""
NAMED_SO = re.compile(r"--(ttl|delay|lease|wait|timeout|window|valid|grace|for|.*-window)$")


@pytest.fixture
def small(command: Command, data_dir: str) -> Command:
    with strandline.open(data_dir) as store:
        store.topic("orders").append(b"tea")
        store.kv("profiles").put("a", b"x")
        store.queue("mails")
        store.metrics("usage")
        store.group("orders", "billing").close()
    return command


def test_a_duration_needs_a_unit(small: Command):
    taken = {}
    for option, line in DURATIONS.items():
        for number in ("7", "1.5", "007"):
            answer = small(*line, option.rpartition(" ")[2], number)
            told = repr(number) in answer.err and re.search("[39]0s", answer.err)
            if answer.code != WRONG_USE or not told:
                taken[option, number] = answer

    assert taken == {}


def test_every_option_that_is_called_like_a_duration_is_in_the_list():
    app = make_app()
    named = set()
    for name in _commands(app):
        found = app
        for word in name.split():
            found = found[word]
        for argument in found.assemble_argument_collection():
            named |= {f"{name} {each}" for each in argument.names if NAMED_SO.match(each)}

    assert named - DURATIONS.keys() - NO_DURATION == {"topic alter --idempotency-window"}


def test_nothing_needs_no_unit(small: Command):
    assert small("topic", "alter", "orders", "--ttl", "0").code == 0
