"""Promise: one place decides who asks and whether he may, at once, and closed when in doubt."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

import pytest

from strandline.api.errors import Refused
from strandline.errors import Corrupt, Forbidden
from strandline.security.audit import TOPIC as AUDIT
from strandline.security.audit import decode
from strandline.security.principal import ANONYMOUS, LOCAL
from strandline.security.scopes import ACTIONS, parse
from strandline.security.token_store import TOPIC as TOKENS
from strandline.security.tokens import DAY_US
from strandline.server.auth.auth import Auth
from strandline.server.settings import RequestLimits, ServerSettings
from strandline.store import Store
from tests.server.running import running
from tests.unit.store.world import World, read_all

HERE, ELSEWHERE = "127.0.0.1", "203.0.113.7"


@pytest.fixture
def world():
    made = World()
    yield made
    made.store.close()


def auth_of(world: World, **settings: object) -> Auth:
    numbers = iter(range(1, 10_000))
    return Auth(
        store=world.store,
        settings=ServerSettings(**settings),
        clock=world.clock,
        random_id=lambda: (next(numbers) * 0x9E3779B97F4A7C15F39C).to_bytes(16, "big"),
    )


@pytest.fixture
def auth(world: World) -> Auth:
    return auth_of(world)


def bearer(auth: Auth, scopes: str = "all", **options: object) -> str:
    made = auth.registry.create(scopes=parse(scopes), creator="test", **options)
    return f"Bearer {made.text}"


def basic(user: str, key: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{key}".encode()).decode()


def refused(work, status: int) -> str:
    with pytest.raises(Refused) as caught:
        work()
    assert caught.value.wire_error.status == status
    return caught.value.wire_error.message


def test_without_tokens_everybody_on_this_machine_may_do_everything(auth: Auth):
    who = auth.authenticate(None, HERE)

    assert who == LOCAL
    for action in ACTIONS:
        auth.authorise(who, action, "orders")


@pytest.mark.parametrize(
    "settings",
    [
        {"bind": "0.0.0.0:4000"},
        {"bind": "192.0.2.1:4000"},
        {"bind": "[::]:4000"},
        {"bind": ":4000"},
        {"behind_proxy": True},
    ],
    ids=str,
)
def test_where_others_can_reach_the_server_nobody_is_let_in_without_a_token(world, settings):
    auth = auth_of(world, **settings)

    refused(lambda: auth.authenticate(None, HERE), 401)
    refused(lambda: auth.authorise(LOCAL, "read", "orders"), 401)


def test_somebody_from_elsewhere_is_not_local_however_he_got_here(auth: Auth):
    refused(lambda: auth.authenticate(None, ELSEWHERE), 401)


@pytest.mark.parametrize("bind", ["127.0.0.1:0", "[::1]:4000", "localhost:4000", "unix:/run/s"])
def test_a_bind_that_only_this_machine_reaches_needs_no_token(world: World, bind: str):
    assert auth_of(world, bind=bind).authenticate(None, HERE) == LOCAL


def test_the_first_token_closes_the_server_at_once_and_for_ever(auth: Auth, world: World):
    local = auth.authenticate(None, HERE)
    header = bearer(auth)
    refused(lambda: auth.authenticate(None, HERE), 401)
    refused(lambda: auth.authorise(local, "read", "orders"), 401)

    auth.registry.revoke(auth.authenticate(header, HERE).id)

    refused(lambda: auth.authenticate(None, HERE), 401)
    refused(lambda: auth_of(world).authenticate(None, HERE), 401)


def test_a_token_does_what_its_scopes_say(auth: Auth):
    who = auth.authenticate(bearer(auth, "read,write:orders.*;deny write:orders.eu"), ELSEWHERE)

    auth.authorise(who, "write", "orders.us")
    with pytest.raises(Forbidden):
        auth.authorise(who, "write", "orders.eu")
    with pytest.raises(Forbidden):
        auth.authorise(who, "delete", "orders.us")
    with pytest.raises(Forbidden):
        auth.authorise(who, "admin")
    assert auth.readable(who, ["a", "orders.eu", "strandline.tokens"]) == ["orders.eu"]


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("topic", [TOKENS, AUDIT, "strandline.users", "strandline.whatever"])
def test_the_servers_own_topics_are_changed_by_nobody_and_read_by_admins(
    auth: Auth, action, topic: str
):
    admin = auth.authenticate(bearer(auth, "all"), HERE)
    reader = auth.authenticate(bearer(auth, "read,write,delete"), HERE)

    assert auth.allows(admin, action, topic) == (action == "read")
    assert not auth.allows(reader, action, topic)


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Bearer ", "Bearer x", "Basic", "Basic !", "Digest x", "bearer\tx", "Bearer \0"],
)
def test_a_header_that_names_nobody_is_refused_also_where_no_token_is_needed(
    auth: Auth, header: str
):
    refused(lambda: auth.authenticate(header, HERE), 401)


def test_a_token_is_refused_before_its_time_and_after_it(auth: Auth, world: World):
    soon_us = world.clock.now_us() + DAY_US
    early = bearer(auth, not_before_us=soon_us)
    brief = bearer(auth, valid_us=DAY_US)
    who = auth.authenticate(brief, HERE)
    auth.authorise(who, "read", "orders")

    assert "not valid yet" in refused(lambda: auth.authenticate(early, HERE), 401)
    world.clock.advance(86_400)

    auth.authenticate(early, HERE)
    assert "expired" in refused(lambda: auth.authenticate(brief, HERE), 401)
    assert "expired" in refused(lambda: auth.authorise(who, "read", "orders"), 401)


def test_a_revoked_token_is_refused_from_the_next_request_on(auth: Auth):
    header = bearer(auth)
    who = auth.authenticate(header, HERE)
    auth.authorise(who, "read", "orders")

    auth.registry.revoke(who.id)

    refused(lambda: auth.authenticate(header, HERE), 401)
    refused(lambda: auth.authorise(who, "read", "orders"), 401)
    assert not auth.allows(who, "read", "orders")
    with pytest.raises(Refused):
        auth.readable(who, ["orders"])


def test_whoever_has_streams_open_is_told_of_once_and_in_time(auth: Auth):
    told: list[str] = []
    auth.on_revoked(told.append)
    kept = auth.authenticate(bearer(auth), HERE)
    gone = auth.authenticate(bearer(auth), HERE)

    auth.sweep()
    before = list(told)
    auth.registry.revoke(gone.id)
    auth.sweep()
    auth.sweep()

    assert (before, told) == ([], [gone.id])
    auth.authorise(kept, "read", "orders")


def test_streams_of_a_token_that_expires_and_of_local_end_too(auth: Auth, world: World):
    told: list[str] = []
    auth.on_revoked(told.append)
    auth.authenticate(None, HERE)
    brief = bearer(auth, valid_us=DAY_US)
    auth.sweep()
    who = auth.authenticate(brief, HERE)
    world.clock.advance(86_400)

    auth.sweep()

    assert told == ["local", who.id]


def test_the_watch_tells_without_being_asked(auth: Auth):
    async def scene() -> str:
        found: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        auth.on_revoked(found.set_result)
        who = auth.authenticate(bearer(auth), HERE)
        auth.start()
        await asyncio.to_thread(auth.registry.revoke, who.id)
        try:
            return await asyncio.wait_for(found, 30) == who.id
        finally:
            await auth.stop()

    assert asyncio.run(scene())


def test_one_bad_turn_does_not_end_the_watch(auth: Auth):
    async def scene() -> bool:
        found: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        first, second = (auth.authenticate(bearer(auth), HERE) for _ in range(2))

        def tell(id: str) -> None:
            if id == first.id:
                raise RuntimeError("a bug")
            found.set_result(id)

        auth.on_revoked(tell)
        auth.start()
        await asyncio.to_thread(auth.registry.revoke, first.id)
        await asyncio.to_thread(auth.registry.revoke, second.id)
        try:
            return await asyncio.wait_for(found, 30) == second.id
        finally:
            await auth.stop()

    assert asyncio.run(scene())


def test_a_ticket_lets_its_owner_in_once_unless_he_was_revoked(auth: Auth):
    who = auth.authenticate(bearer(auth), HERE)
    first, second = auth.tickets.issue(who), auth.tickets.issue(who)

    taken = auth.redeem(first, HERE)
    auth.registry.revoke(who.id)

    assert taken == who
    refused(lambda: auth.redeem(first, HERE), 401)
    refused(lambda: auth.redeem(second, HERE), 401)


def test_a_token_is_no_ticket(auth: Auth):
    header = bearer(auth)

    refused(lambda: auth.redeem(header.removeprefix("Bearer "), HERE), 401)


def test_nobody_is_somebody_who_may_nothing(auth: Auth):
    bearer(auth)

    assert auth.identify(None, HERE) == ANONYMOUS
    refused(lambda: auth.authorise(ANONYMOUS, "read", "orders"), 401)


def test_a_user_does_what_was_granted_to_him_and_no_longer_when_it_is_revoked(auth, world):
    users = world.store.queries.users
    world.store.run("DEFINE pay FIELDS {amount: u64}")
    users.create("ada", key="correct horse", roles=("read-only",))
    users.create("root", key="battery staple", roles=("admin",))

    ada = auth.authenticate(basic("ada", "correct horse"), HERE)
    root = auth.authenticate(basic("root", "battery staple"), HERE)
    before = [auth.allows(ada, action, "pay") for action in ("read", "write", "delete")]
    users.grant("ada", ("WRITE",), ["pay"])
    granted = [auth.allows(ada, action, "pay") for action in ("read", "write", "consume")]
    users.revoke("ada", (), ["pay"])
    after = [auth.allows(ada, action, "pay") for action in ("read", "write")]
    users.revoke_key("ada")

    assert before == [True, False, False]
    assert granted == [True, True, True]
    assert after == [False, False]
    assert all(auth.allows(root, action, "pay") for action in ACTIONS)
    refused(lambda: auth.authenticate(basic("ada", "correct horse"), HERE), 401)
    refused(lambda: auth.authorise(ada, "read", "other"), 401)
    refused(lambda: auth.authenticate(None, HERE), 401)


def test_only_a_key_that_is_not_known_takes_time(auth: Auth, world: World):
    world.store.queries.users.create("ada", key="correct horse")
    header = basic("ada", "correct horse")

    before = auth.takes_time(header)
    auth.authenticate(header, HERE)

    assert (before, auth.takes_time(header)) == (True, False)
    assert not auth.takes_time(bearer(auth))
    assert not auth.takes_time(None)


def test_after_ten_wrong_tokens_an_address_has_to_wait(auth: Auth, world: World):
    header = bearer(auth)

    for _ in range(10):
        refused(lambda: auth.authenticate("Bearer wrong", ELSEWHERE), 401)
    with pytest.raises(Refused) as caught:
        auth.authenticate("Bearer wrong", ELSEWHERE)
    refused(lambda: auth.authenticate(header, ELSEWHERE), 429)
    auth.authenticate(header, "203.0.113.8")
    world.clock.advance(60)

    assert caught.value.wire_error.status == 429
    assert 0 < caught.value.wire_error.retry_after_s <= 6
    auth.authenticate(header, ELSEWHERE)


def test_the_owner_on_this_machine_is_never_locked_out(auth: Auth):
    header = bearer(auth)
    for _ in range(10):
        refused(lambda: auth.authenticate("Bearer wrong", HERE), 401)

    auth.authenticate(header, HERE)

    refused(lambda: auth.authenticate("Bearer wrong", HERE), 429)


def test_a_key_that_can_be_guessed_waits_on_this_machine_too_though_it_is_right(auth, world):
    world.store.queries.users.create("ada", key="correct horse")
    header = basic("ada", "correct horse")
    auth.authenticate(header, HERE)
    for _ in range(10):
        refused(lambda: auth.authenticate("Bearer wrong", HERE), 401)

    refused(lambda: auth.authenticate(header, HERE), 429)


def test_failures_are_in_the_audit_log_without_what_was_sent(auth: Auth, world: World):
    header = bearer(auth)
    for _ in range(10):
        refused(lambda: auth.authenticate(header[:-1] + "\n\x1b", ELSEWHERE), 401)
    world.store.sync()

    records = read_all(world.store.existing_topic(AUDIT))
    kinds = [decode(record).kind for record in records]

    assert kinds == ["denied"] * 10 + ["locked-out"]
    assert {decode(record).address for record in records} == {ELSEWHERE}
    assert not any(header[30:60].encode() in record.data for record in records)


def test_a_store_of_tokens_that_is_damaged_denies_all_and_keeps_a_server_from_starting(
    auth: Auth, world: World
):
    header = bearer(auth)
    who = auth.authenticate(header, HERE)
    told: list[str] = []
    auth.on_revoked(told.append)

    world.store.kv(TOKENS).put(b"token:" + who.id.encode(), b"{}")
    auth.sweep()

    assert told == [who.id]
    refused(lambda: auth.authenticate(header, HERE), 503)
    refused(lambda: auth.authenticate(None, HERE), 503)
    refused(lambda: auth.authorise(who, "read", "orders"), 503)
    refused(lambda: auth.authorise(LOCAL, "read", "orders"), 503)
    with pytest.raises(Corrupt, match="cannot be trusted"):
        auth_of(world)


def test_the_day_of_use_is_on_record_when_the_server_ends(auth: Auth):
    async def scene() -> None:
        auth.authenticate(header, HERE)
        await auth.stop()

    header = bearer(auth)
    asyncio.run(scene())

    (token,) = auth.registry.current()
    assert auth.registry.last_used(token) == "2023-11-14"


def test_the_start_is_in_the_audit_log_with_what_was_found(auth: Auth, world: World):
    async def scene() -> None:
        auth.start()
        await auth.stop()

    asyncio.run(scene())
    world.store.sync()

    entry = decode(read_all(world.store.existing_topic(AUDIT))[0])
    assert (entry.kind, entry.what["health"]) == ("start", "green")


def test_the_start_tells_what_is_wrong_with_the_store(auth: Auth, world: World):
    world.store.topic("a").append_many([b"1", b"2"])
    world.store.topic("b", cap_records=1, discard="reject")
    world.store.routers.put("r", source="a", dest="b", start="earliest")
    world.store.routers.run_once()

    async def scene() -> None:
        auth.start()
        await auth.stop()

    asyncio.run(scene())
    world.store.sync()

    entry = decode(read_all(world.store.existing_topic(AUDIT))[0])
    assert (entry.kind, entry.what["health"]) == ("start", world.store.health().status)
    assert entry.what["health"] != "green"
    assert entry.what["found"].startswith("router 'r' is held")


def test_the_start_names_the_files_that_were_taken_out_of_use(tmp_path: Path):
    with Store(str(tmp_path / "data")) as store:
        store.topic("news").append(b"x")
        store.checkpoint()
    stray = tmp_path / "data" / "segments" / "shared" / "999.seg"
    stray.parent.mkdir(parents=True, exist_ok=True)
    stray.write_bytes(b"of nobody")

    with running(tmp_path) as server:
        server.store.sync()
        entry = decode(read_all(server.store.existing_topic(AUDIT))[0])

    assert entry.kind == "start"
    assert entry.what["set_aside"] == "1"
    assert entry.what["set_aside_1"] == "quarantine/shared-999.seg"
    assert (tmp_path / "data" / entry.what["set_aside_1"]).read_bytes() == b"of nobody"


def test_failures_per_minute_can_be_set(world: World):
    auth = auth_of(world, limits=RequestLimits(failures_per_minute=1))

    refused(lambda: auth.authenticate("Bearer wrong", ELSEWHERE), 401)
    refused(lambda: auth.authenticate("Bearer wrong", ELSEWHERE), 429)
