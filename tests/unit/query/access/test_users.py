"""Promise: a user does what his role and his grants say, with a key that nobody can read again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest

from strandline.errors import Conflict, Forbidden, Invalid
from strandline.query.access.users import Users
from strandline.query.language.ast import Query
from strandline.query.language.parser import parse
from tests.unit.store import world

EVENTS = ["pay", "view"]
REMEMBERED = {"big": "QUERY pay WHERE amount > 100"}
COST = 16
READS = [
    "QUERY pay",
    "REPLAY pay FOR x",
    "EXPLAIN QUERY pay",
    "PLOT COUNT OF pay",
    "SHOW big",
]
CHANGES = ["REMEMBER QUERY pay AS new", "FORGET big"]
WRITE = "STORE pay FOR x PAYLOAD {}"
FOR_ADMINS = [
    "DEFINE new FIELDS {x: u64}",
    "DELETE pay",
    "CREATE USER eve",
    "REVOKE KEY bob",
    "LIST USERS",
    "GRANT READ ON pay TO bob",
    "REVOKE READ ON pay FROM bob",
    "SHOW PERMISSIONS FOR ada",
]


@pytest.fixture
def opened():
    with world.World().store as store:
        yield store


@pytest.fixture
def users(opened) -> Users:
    return users_of(opened)


def users_of(store) -> Users:
    ids = iter(range(1, 1000))
    return Users(
        store.kv("users"),
        lambda: next(ids).to_bytes(16, "big"),
        events=lambda: EVENTS,
        remembered=_remembered,
        cost=COST,
    )


def _remembered(alias: str) -> Query | None:
    return parse(REMEMBERED[alias]) if alias in REMEMBERED else None


def may(users: Users, user: str, text: str) -> bool:
    try:
        users.check_allowed(user, parse(text))
    except Forbidden:
        return False
    return True


def test_a_key_that_was_not_given_is_told_once_and_never_kept(opened, users):
    created = users.create("bob")

    assert len(created.key) == 64
    assert users.authenticate("bob", created.key).id == "bob"
    assert users.create("eve").key != created.key
    stored = b"".join(entry.value for entry in opened.kv("users").scan())
    assert created.key.encode() not in stored
    assert bytes.fromhex(created.key) not in stored


def test_a_key_that_was_given_is_the_key(opened, users):
    users.create("bob", key="correct horse")

    assert users.authenticate("bob", "correct horse").id == "bob"
    assert b"correct horse" not in b"".join(entry.value for entry in opened.kv("users").scan())


def test_the_same_key_of_two_users_is_kept_differently(opened, users):
    users.create("bob", key="correct horse")
    users.create("eve", key="correct horse")

    first, second = (msgspec.json.decode(entry.value) for entry in opened.kv("users").scan())
    assert first["digest"] != second["digest"]


@pytest.mark.parametrize("user", ["bob", "nobody", "", "two words", "user:bob"])
@pytest.mark.parametrize("key", ["", "wrong", "correct horse ", "\ud800", "\0"])
def test_a_wrong_user_or_key_is_forbidden_and_not_told_apart(users, user, key):
    users.create("bob", key="correct horse")

    with pytest.raises(Forbidden, match="unknown user or wrong key"):
        users.authenticate(user, key)


@pytest.mark.parametrize("user", ["", "two words", "a/b", "-x", "x" * 129, "ä"])
def test_an_id_is_a_plain_word(users, user):
    with pytest.raises(Invalid, match="invalid user id"):
        users.create(user)


def test_a_short_key_and_an_unknown_role_are_refused(users):
    with pytest.raises(Invalid, match="at least 8 characters"):
        users.create("bob", key="short")
    with pytest.raises(Invalid, match="did you mean 'editor'"):
        users.create("bob", roles=("edtor",))

    assert users.list_users() == []


def test_an_id_is_used_once(users):
    users.create("bob")

    with pytest.raises(Conflict):
        users.create("bob")


def test_a_revoked_key_opens_nothing_and_its_id_is_never_free_again(users):
    key = users.create("bob", roles=("editor",)).key
    users.grant("bob", ("READ",), ["pay"])

    users.revoke_key("bob")

    with pytest.raises(Forbidden):
        users.authenticate("bob", key)
    with pytest.raises(Forbidden, match="revoked"):
        users.check_allowed("bob", parse("QUERY pay"))
    with pytest.raises(Conflict):
        users.create("bob")
    assert users.user("bob").events == {"pay": ("READ",)}
    assert not users.user("bob").active


def test_revoking_a_key_twice_changes_nothing(users):
    users.create("bob")

    users.revoke_key("bob")
    users.revoke_key("bob")

    assert not users.user("bob").active


@pytest.mark.parametrize(
    ("roles", "reads", "writes"),
    [
        ((), False, False),
        (("read-only",), True, False),
        (("viewer",), True, False),
        (("VIEWER",), True, False),
        (("editor",), True, True),
        (("write-only",), False, True),
        (("write-only", "viewer"), True, True),
        (("admin",), True, True),
    ],
)
def test_a_role_says_what_may_be_done_with_every_event(users, roles, reads, writes):
    users.create("bob", roles=roles)

    assert [may(users, "bob", text) for text in READS] == [reads] * len(READS)
    assert may(users, "bob", "REPLAY FOR x") == reads
    assert [may(users, "bob", text) for text in CHANGES] == [reads and writes] * len(CHANGES)
    assert may(users, "bob", WRITE) == writes
    assert may(users, "bob", "BATCH [PING; FLUSH]") == writes
    assert may(users, "bob", "PING")


@pytest.mark.parametrize("text", FOR_ADMINS)
def test_what_changes_events_and_users_is_for_admins(users, text):
    users.create("bob", roles=("editor", "viewer", "write-only"))
    users.create("ada", roles=("admin",))

    assert not may(users, "bob", text)
    assert may(users, "ada", text)


def test_a_user_sees_his_own_permissions(users):
    users.create("bob")

    assert may(users, "bob", "SHOW PERMISSIONS FOR bob")
    assert not may(users, "bob", "SHOW PERMISSIONS FOR ada")


def test_a_grant_is_for_its_event_alone_and_holds_at_once(users):
    users.create("bob")

    users.grant("bob", ("READ",), ["pay"])

    assert may(users, "bob", "QUERY pay")
    assert not may(users, "bob", WRITE)
    assert not may(users, "bob", "QUERY view")
    assert not may(users, "bob", "REPLAY FOR x")


def test_every_event_of_a_question_must_be_granted(users):
    users.create("bob")
    users.grant("bob", ("READ",), ["pay"])

    for text in (
        "QUERY pay FOLLOWED BY view",
        "EXPLAIN QUERY view PRECEDED BY pay",
        "PLOT COUNT OF pay THEN view",
        "PLOT COUNT OF pay VS COUNT OF view",
        "BATCH [QUERY pay; QUERY view]",
    ):
        assert not may(users, "bob", text)
    users.grant("bob", ("READ",), ["view"])
    assert may(users, "bob", "QUERY pay FOLLOWED BY view")


def test_grants_add_up(users):
    users.create("bob")

    users.grant("bob", ("READ",), ["pay"])
    users.grant("bob", ("WRITE",), ["pay", "view"])

    assert users.user("bob").events == {"pay": ("READ", "WRITE"), "view": ("WRITE",)}


def test_a_grant_of_one_permission_leaves_the_other_to_the_role(users):
    users.create("bob", roles=("viewer",))
    users.create("eve", roles=("write-only",))

    users.grant("bob", ("WRITE",), ["pay"])
    users.grant("eve", ("READ",), ["pay"])

    for user in ("bob", "eve"):
        assert may(users, user, "QUERY pay")
        assert may(users, user, WRITE)


def test_a_grant_that_was_revoked_whole_goes_before_the_role(users):
    users.create("bob", roles=("editor",))
    users.grant("bob", ("READ", "WRITE"), ["pay"])

    users.revoke("bob", (), ["pay"])

    assert not may(users, "bob", "QUERY pay")
    assert not may(users, "bob", WRITE)
    assert not may(users, "bob", "REPLAY FOR x")
    assert may(users, "bob", "QUERY view")


def test_a_revoke_takes_what_it_names(users):
    users.create("bob")
    users.grant("bob", ("READ", "WRITE"), ["pay", "view"])

    users.revoke("bob", ("WRITE",), ["pay"])

    assert users.user("bob").events == {"pay": ("READ",), "view": ("READ", "WRITE")}


def test_an_admin_may_do_all_whatever_was_revoked(users):
    users.create("ada", roles=("admin",))
    users.grant("ada", ("READ",), ["pay"])
    users.revoke("ada", (), ["pay"])

    assert may(users, "ada", "QUERY pay")
    assert may(users, "ada", "REPLAY FOR x")


def test_a_grant_to_nobody_or_for_no_event_is_an_error(users):
    users.create("bob")

    with pytest.raises(Invalid, match="unknown user 'eve'"):
        users.grant("eve", ("READ",), ["pay"])
    with pytest.raises(Invalid, match="unknown event 'pya'; did you mean 'pay'"):
        users.grant("bob", ("READ",), ["view", "pya"])
    assert users.user("bob").events == {}


def test_a_revoke_of_what_was_never_granted_changes_nothing(users):
    users.create("bob", roles=("viewer",))

    users.revoke("bob", ("READ",), ["pay", "no_such_event"])

    assert users.user("bob").events == {}
    assert may(users, "bob", "QUERY pay")


def test_nobody_unknown_may_do_anything(users):
    for act in (users.user, users.revoke_key):
        with pytest.raises(Invalid, match="unknown user 'eve'"):
            act("eve")
    with pytest.raises(Invalid, match="unknown user"):
        users.check_allowed("eve", parse("PING"))


def test_what_is_remembered_is_shown_to_those_who_may_ask_it(users):
    users.create("bob")
    users.create("eve", roles=("viewer",))
    users.grant("bob", ("READ",), ["pay"])

    assert may(users, "bob", "SHOW big")
    assert not may(users, "bob", "SHOW unknown")
    assert may(users, "eve", "SHOW unknown")


def test_users_are_listed_by_id(users):
    users.create("eve")
    users.create("bob", roles=("viewer",))

    assert [(user.id, user.roles, user.active) for user in users.list_users()] == [
        ("bob", ("viewer",), True),
        ("eve", (), True),
    ]


def test_users_are_there_after_the_store_was_closed():
    surroundings = world.World()
    key = users_of(surroundings.store).create("bob", roles=("viewer",)).key

    users = users_of(surroundings.reopen())

    assert users.authenticate("bob", key).roles == ("viewer",)
    assert may(users, "bob", "QUERY pay")
    surroundings.store.close()


class Interrupted:
    """A view where something happens between the next read and the write behind it."""

    def __init__(self, kv, happens) -> None:
        self._kv = kv
        self._happens = happens

    def entry(self, key):
        found = self._kv.entry(key)
        happens, self._happens = self._happens, lambda: None
        happens()
        return found

    def __getattr__(self, name):
        return getattr(self._kv, name)


def test_a_grant_between_the_read_and_the_write_of_another_is_kept(opened, users):
    users.create("bob")
    slow = Users(
        Interrupted(opened.kv("users"), lambda: users.grant("bob", ("READ",), ["pay"])),
        lambda: bytes(16),
        events=lambda: EVENTS,
        cost=COST,
    )

    slow.grant("bob", ("WRITE",), ["view"])

    assert users.user("bob").events == {"pay": ("READ",), "view": ("WRITE",)}


def test_grants_at_the_same_time_are_all_kept(opened):
    names = [f"event{number}" for number in range(16)]
    ids = iter(range(1, 1000))
    users = Users(
        opened.kv("users"),
        lambda: next(ids).to_bytes(16, "big"),
        events=lambda: names,
        cost=COST,
    )
    users.create("bob")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: users.grant("bob", ("READ",), [name]), names))

    assert sorted(users.user("bob").events) == sorted(names)
