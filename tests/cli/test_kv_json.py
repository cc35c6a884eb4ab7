"""Promise: parts of values that are JSON are read, set and deleted by their path."""

from __future__ import annotations

import pytest

from strandline.cli.errors import FAILED, WRONG_USE
from tests.cli.conftest import Command, Program

ADA = '{"city": "London", "born": {"year": 1815}, "notes": ["a", "b"]}'


@pytest.fixture
def profiles(command: Command) -> Command:
    command("kv", "put", "profiles", "ada", ADA)
    return command


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("$.city", "London"),
        ("$.born.year", 1815),
        ("$.notes[-1]", "b"),
        ('$["born"]', {"year": 1815}),
    ],
)
def test_what_is_at_a_path_is_printed(profiles: Command, path: str, value: object):
    found = profiles("kv", "json", "get", "profiles", "ada", path, "--output", "json")

    assert found.json == {"name": "profiles", "key": "ada", "path": path, "value": value}


def test_without_a_path_it_is_the_whole_value(profiles: Command):
    table = profiles("kv", "json", "get", "profiles", "ada")

    assert table.lines[-1].split(maxsplit=1) == [
        "value",
        '{"city": "London", "born": {"year": 1815}, "notes": ["a", "b"]}',
    ]


def test_a_part_is_set_and_the_rest_stays(profiles: Command):
    done = profiles(
        "kv", "json", "set", "profiles", "ada", "$.born.month", "12", "--output", "json"
    )

    born = profiles("kv", "json", "get", "profiles", "ada", "$.born", "--output", "json").json
    city = profiles("kv", "json", "get", "profiles", "ada", "$.city", "--output", "json").json
    assert done.json["version"] == 2
    assert (born["value"], city["value"]) == ({"year": 1815, "month": 12}, "London")


def test_the_whole_makes_a_key_a_view_and_a_store(command: Command):
    command("kv", "json", "set", "new", "k", "$", '{"a": [1]}')

    found = command("kv", "json", "get", "new", "k", "$.a[0]", "--output", "json")
    assert found.json["value"] == 1


def test_a_value_comes_from_stdin(program: Program):
    made = program.run("kv", "json", "set", "new", "k", "$", stdin=b'{"a": null}\n')
    found = program.run("kv", "json", "get", "new", "k", "$.a", "--output", "json")

    assert (made.code, found.code, found.json["value"]) == (0, 0, None)


def test_a_part_is_deleted_once(profiles: Command):
    asked = ("kv", "json", "delete", "profiles", "ada", "$.city", "--output", "json")

    assert [profiles(*asked).json["deleted"] for _ in range(2)] == [True, False]
    assert profiles("kv", "json", "get", "profiles", "ada", "$.city").code == FAILED


@pytest.mark.parametrize(
    ("arguments", "code", "reason", "hint"),
    [
        (
            ["get", "profiles", "ada", "$.nothing"],
            FAILED,
            "nothing at $.nothing",
            "kv get profiles",
        ),
        (["get", "profiles", "bob"], FAILED, "nothing at $ of key 'bob'", "kv get profiles bob"),
        (["get", "profiles", "ada", "city"], WRONG_USE, "city", ""),
        (["set", "profiles", "ada", "$.city", "Paris"], WRONG_USE, "is not JSON", "'\"London\"'"),
    ],
)
def test_what_cannot_be_is_told(profiles: Command, arguments, code, reason, hint):
    found = profiles("kv", "json", *arguments)

    assert found.code == code
    assert reason in found.err
    assert hint in found.err
    assert profiles("kv", "get", "profiles", "ada", "--raw").out == ADA
