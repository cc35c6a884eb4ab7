"""Promise: a user may run the same commands through a server as in an open store, role by role.

Every kind of command is tried by every role and by users with grants, embedded and over HTTP; both
decisions are compared with each other and with the table in ``MAY``.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import get_args

import httpx2
import pytest

from strandline.errors import Forbidden, StrandlineError
from strandline.query.language.ast import Command
from strandline.query.language.parser import parse
from tests.server.asking import Asking, Refusal
from tests.server.running import DEADLINE_S, Running, running

KEY = "correct horse"
ROLES = ("admin", "editor", "read-only", "viewer", "write-only")
GRANTS = {"reads": "READ", "writes": "WRITE", "both": "READ, WRITE"}
USERS = (*ROLES, "none", *GRANTS)
READERS = {"admin", "editor", "read-only", "viewer"}
WRITERS = {"admin", "editor", "write-only"}
MAY = {
    "PING": set(USERS),
    "SHOW PERMISSIONS FOR {me}": set(USERS),
    "QUERY pay": READERS | {"reads", "both"},
    "QUERY view": READERS,
    "QUERY pay FOLLOWED BY view": READERS,
    "EXPLAIN QUERY pay": READERS | {"reads", "both"},
    "REPLAY pay FOR x": READERS | {"reads", "both"},
    "REPLAY FOR x": READERS,
    "PLOT COUNT OF pay": READERS | {"reads", "both"},
    "SHOW pays": READERS | {"reads", "both"},
    'STORE pay FOR x PAYLOAD {"a": 1}': WRITERS | {"writes", "both"},
    'STORE view FOR x PAYLOAD {"a": 1}': WRITERS,
    "REMEMBER QUERY pay AS new_pays": {"admin", "editor", "both"},
    "REMEMBER QUERY view AS new_views": {"admin", "editor"},
    "FORGET pays": {"admin", "editor", "both"},
    "FLUSH": WRITERS,
    "BATCH [PING; QUERY pay]": READERS | {"reads", "both"},
    "BATCH [PING; FLUSH]": WRITERS,
    "DELETE pay WHERE a = 99": {"admin"},
    "DEFINE pay FIELDS {a: i64}": {"admin"},
    "SHOW PERMISSIONS FOR other": {"admin"},
    "LIST USERS": {"admin"},
    "CREATE USER other": {"admin"},
    "REVOKE KEY other": {"admin"},
    "GRANT READ ON pay TO other": {"admin"},
    "REVOKE READ ON pay FROM other": {"admin"},
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("users"), tokens={"root": "all"}) as started:
        store, users = started.store, started.store.queries.users
        for event in ("pay", "view"):
            store.run(f"DEFINE {event} FIELDS {{a: i64}}")
            store.run(f'STORE {event} FOR x PAYLOAD {{"a": 1}}')
        for role in ROLES:
            users.create(role, key=KEY, roles=(role,))
        for user in ("none", "other", *GRANTS):
            users.create(user, key=KEY)
        for user, permissions in GRANTS.items():
            store.run(f"GRANT {permissions} ON pay TO {user}")
        yield started


def test_every_kind_of_command_is_in_the_matrix():
    tried = {type(parse(text.format(me="me") if "{me}" in text else text)) for text in MAY}

    assert tried == set(get_args(Command))


@pytest.mark.parametrize("user", USERS)
def test_a_user_may_run_the_same_commands_embedded_and_served(server: Running, user: str):
    login = base64.b64encode(f"{user}:{KEY}".encode()).decode()
    headers = {"authorization": f"Basic {login}"}
    wrong = {}
    with httpx2.Client(base_url=server.url, headers=headers, timeout=DEADLINE_S) as client:
        for text, allowed in MAY.items():
            command = text.replace("{me}", user)
            _prepare(server)
            embedded = _embedded(server, user, command)
            _prepare(server)
            answer = client.post("/v0/command", json={"command": command})
            served = answer.status_code != 403
            if (embedded, served) != (user in allowed, user in allowed):
                wrong[command] = {"embedded": embedded, "served": served}

    assert wrong == {}


def _prepare(server: Running) -> None:
    """Have one remembered query, and not the one that is to be made."""
    for command in (
        *("REMEMBER QUERY pay AS pays", "FORGET new_pays", "FORGET new_views"),
        "GRANT READ ON pay TO other",
    ):
        try:
            server.store.run(command)
        except StrandlineError:
            continue


def _embedded(server: Running, user: str, command: str) -> bool:
    try:
        server.store.queries.run(command, user=user)
    except Forbidden:
        return False
    except StrandlineError:
        return True
    return True


def test_a_user_reads_his_own_permissions_and_no_others(server: Running):
    login = base64.b64encode(f"viewer:{KEY}".encode()).decode()
    ask = {"headers": {"authorization": f"Basic {login}"}, "timeout": DEADLINE_S}
    url = f"{server.url}/v0/command"

    own = httpx2.post(url, json={"command": "SHOW PERMISSIONS FOR viewer"}, **ask)
    other = httpx2.post(url, json={"command": "SHOW PERMISSIONS FOR admin"}, **ask)

    assert own.status_code == 200
    assert own.json()["rows"][0][:2] == ["viewer", ["viewer"]]
    assert other.status_code == 403


@pytest.mark.parametrize(
    "command",
    [
        "CREATE USER bob",
        "CREATE USER bob WITH ROLES [editor, viewer]",
        "BATCH [PING; CREATE USER bob; CREATE USER ada WITH ROLES [admin]]",
    ],
)
def test_the_first_user_of_an_open_server_must_be_an_admin(tmp_path, command: str):
    with running(tmp_path) as server, Asking(server) as http:
        with pytest.raises(Refusal, match="first user") as refusal:
            http.post("/v0/command", {"command": command})
        listed = http.post("/v0/command", {"command": "LIST USERS"})

    assert refusal.value.status == 400
    assert "WITH ROLES [admin]" in refusal.value.message
    assert listed["rows"] == []


@pytest.mark.parametrize(
    "command",
    [
        "CREATE USER ada WITH ROLES [ADMIN]",
        "BATCH [CREATE USER ada WITH ROLES [admin]; CREATE USER bob]",
    ],
)
def test_after_the_first_user_an_admin_can_get_in(tmp_path, command: str):
    with running(tmp_path) as server:
        with Asking(server) as http:
            made = http.post("/v0/command", {"command": command})
            first = made["results"][0] if "results" in made else made
            key = first["rows"][0][1]
            with pytest.raises(Refusal) as closed:
                http.post("/v0/command", {"command": "PING"})
        login = base64.b64encode(f"ada:{key}".encode()).decode()
        answer = httpx2.post(
            f"{server.url}/v0/command",
            json={"command": "CREATE USER eve"},
            headers={"authorization": f"Basic {login}"},
            timeout=DEADLINE_S,
        )

    assert closed.value.status == 401
    assert answer.status_code == 200


def test_with_a_token_any_user_can_be_the_first(tmp_path):
    with running(tmp_path, tokens={"root": "all"}) as server, Asking(server, "root") as http:
        made = http.post("/v0/command", {"command": "CREATE USER bob WITH ROLES [viewer]"})

    assert made["rows"][0][0] == "bob"
