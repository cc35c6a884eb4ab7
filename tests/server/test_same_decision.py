"""Promise: what one may not read of a topic, one sees through no view, question or copy."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from typing import NamedTuple

import httpx2
import pytest

from strandline.security.scopes import parse
from tests.server.running import Running, running

SECRET = "zugzwang"


class Way(NamedTuple):
    """A request that would show the secret to whoever may see it."""

    method: str
    path: str
    body: object = None


WAYS = {
    "topic": Way("POST", "/v0/topics/vault/diff", {}),
    "topic by seq": Way("POST", "/v0/topics/vault/pick", {"seqs": [1, 2, 3, 4]}),
    "dead letters of a group": Way("POST", "/v0/topics/vault:g:dead/diff", {}),
    "journal of a remembered query": Way("POST", "/v0/topics/remembered:seen/diff", {}),
    "copy by a router": Way("POST", "/v0/topics/vault.copy/diff", {}),
    "kv": Way("POST", "/v0/kv/vault.kv/get", {"key": "k"}),
    "kv scan": Way("POST", "/v0/kv/vault.kv/scan", {}),
    "kv history": Way("POST", "/v0/kv/vault.kv/history", {"key": "k"}),
    "kv value": Way("GET", "/v0/kv/vault.kv/value?key=k"),
    "topic of a kv": Way("POST", "/v0/topics/vault.kv/diff", {}),
    "queue peek": Way("GET", "/v0/queues/vault.jobs/peek"),
    "queue claim": Way("POST", "/v0/topics/vault.jobs/claim", {"node": "w"}),
    "dead jobs": Way("GET", "/v0/queues/vault.dead/dead"),
    "topic of dead jobs": Way("POST", "/v0/topics/vault.dead:dead/diff", {}),
    "series": Way("POST", "/v0/series/vault.series/range", {"sources": [{"source": "s"}]}),
    "series latest": Way("POST", "/v0/series/vault.series/latest", {}),
    "table": Way("POST", "/v0/tables/vault/rows", {}),
    "sql": Way("POST", "/v0/sql", {"sql": "SELECT * FROM vault"}),
    "sql, quoted": Way("POST", "/v0/sql", {"sql": 'SELECT * FROM "vault"'}),
    "sql, nested": Way(
        "POST", "/v0/sql", {"sql": "WITH a AS (SELECT * FROM (SELECT * FROM vault) b) FROM a"}
    ),
    "sql, joined": Way("POST", "/v0/sql", {"sql": "SELECT v.* FROM open o JOIN vault v ON true"}),
    "sql, in a condition": Way(
        "POST", "/v0/sql", {"sql": "SELECT (SELECT min(word) FROM vault) AS w FROM open"}
    ),
    "sql, united": Way(
        "POST", "/v0/sql", {"sql": "SELECT word FROM open UNION ALL SELECT word FROM vault"}
    ),
    "sql, remembered": Way("POST", "/v0/sql", {"sql": "SELECT * FROM remembered.seen"}),
    "QUERY": Way("POST", "/v0/command", {"command": "QUERY vault"}),
    "REPLAY": Way("POST", "/v0/command", {"command": "REPLAY vault FOR c"}),
    "REPLAY of all": Way("POST", "/v0/command", {"command": "REPLAY FOR c"}),
    "SHOW": Way("POST", "/v0/command", {"command": "SHOW seen"}),
    "a batch": Way("POST", "/v0/command", {"command": "BATCH [ PING; QUERY vault ]"}),
    "sequence": Way("POST", "/v0/command", {"command": "QUERY open FOLLOWED BY vault LINKED BY c"}),
}
MAY_SHOW_NOTHING = {"REPLAY of all", "a batch", "sequence", "dead jobs", "topic of dead jobs"}
"""Ways that are tried, though what they show even to insiders is another matter."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    tokens = {
        "insider": "all",
        "reader": "read,consume:vault*",
        "outsider": "all;deny read,consume:vault*",
        "stranger": "read,write,consume:open",
    }
    with running(tmp_path_factory.mktemp("views"), tokens=tokens) as started:
        _fill(started)
        yield started


def _fill(server: Running) -> None:
    store, data = server.store, SECRET.encode()
    for event in ("vault", "open"):
        store.run(f"DEFINE {event} FIELDS {{word: string}}")
    store.run(f'STORE vault FOR c PAYLOAD {{"word": "{SECRET}"}}')
    store.run('STORE open FOR c PAYLOAD {"word": "plain"}')
    store.run("REMEMBER QUERY vault AS seen")
    store.kv("vault.kv").put("k", data)
    store.queue("vault.jobs").put(data)
    store.series("vault.series").append("s", 1, data)
    store.topic("vault.copy").append(data)
    group = store.group("vault", "g", deliveries_max=1)
    with group.join("w") as member:
        for delivery in member.read(max=10):
            delivery.nack()
    group.close()


def _ask(server: Running, way: Way, token: str) -> httpx2.Response:
    headers = {"authorization": f"Bearer {server.tokens[token]}"}
    options = {} if way.body is None else {"json": way.body}
    return httpx2.request(way.method, server.url + way.path, headers=headers, timeout=30, **options)


def _shows(answer: httpx2.Response) -> bool:
    coded = re.findall(rb'_base64":"([^"]*)"', answer.content)
    return any(SECRET.encode() in each for each in (answer.content, *map(base64.b64decode, coded)))


@pytest.mark.parametrize("name", [name for name in WAYS if name not in MAY_SHOW_NOTHING])
def test_whoever_may_read_it_sees_it(server: Running, name: str):
    answer = _ask(server, WAYS[name], "insider")

    assert answer.status_code == 200, answer.text
    assert _shows(answer)


@pytest.mark.parametrize("token", ["outsider", "stranger"])
@pytest.mark.parametrize("name", WAYS)
def test_whoever_may_not_read_it_sees_it_in_no_way(server: Running, name: str, token: str):
    answer = _ask(server, WAYS[name], token)

    assert answer.status_code in (400, 403, 404), answer.text
    assert not _shows(answer)


@pytest.mark.parametrize("name", ["topic", "kv", "series", "table", "sql", "QUERY", "SHOW"])
def test_read_of_the_topic_is_enough_for_every_view(server: Running, name: str):
    answer = _ask(server, WAYS[name], "reader")

    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("token", ["outsider", "stranger"])
def test_nobody_copies_with_a_router_what_he_may_not_read(server: Running, token: str):
    way = Way("PUT", "/v0/routers/leak", {"source": "vault", "dest": "open2"})

    assert _ask(server, way, token).status_code == 403


@pytest.mark.parametrize("token", ["outsider", "stranger"])
def test_nobody_remembers_what_he_may_not_read(server: Running, token: str):
    way = Way("POST", "/v0/command", {"command": "REMEMBER QUERY vault AS mine"})

    assert _ask(server, way, token).status_code in (400, 403)


@pytest.mark.parametrize("path", ["/v0/topics", "/v0/views", "/v0/remembered", "/v0/routers"])
def test_lists_have_only_what_one_may_read(server: Running, path: str):
    way = Way("GET", path)

    for token in ("outsider", "stranger"):
        answer = _ask(server, way, token)
        assert answer.status_code == 200
        assert "vault" not in answer.text
        assert "seen" not in answer.text


@pytest.mark.parametrize(
    "statement",
    ["SELECT * FROM vualt", "SELECT * FROM vaul", "SHOW TABLES"],
)
def test_no_error_tells_names_that_one_may_not_read(server: Running, statement: str):
    answer = _ask(server, Way("POST", "/v0/sql", {"sql": statement}), "stranger")

    assert answer.status_code in (400, 403, 404)
    assert "vault" not in answer.text


@pytest.mark.parametrize(
    "command",
    [
        "CREATE USER eve WITH ROLES [admin]",
        "GRANT READ ON vault TO eve",
        "REVOKE KEY eve",
    ],
)
def test_nobody_makes_himself_a_user_with_more_rights(server: Running, command: str):
    scopes = parse("tokens;read:open")
    clerk = server.parts.auth.registry.create(scopes=scopes, creator="test").text

    answer = httpx2.post(
        f"{server.url}/v0/command",
        json={"command": command},
        headers={"authorization": f"Bearer {clerk}"},
    )

    assert answer.status_code == 403, answer.text
