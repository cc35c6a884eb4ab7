"""Promise: tokens are made, rotated and revoked durably; damage lets nobody in."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from strandline.errors import Conflict, Corrupt, Invalid, NotFound
from strandline.security.scopes import parse
from strandline.security.token_store import TOPIC, TokenStore
from strandline.security.tokens import DAY_US, VALID_US, VALID_US_MAX
from strandline.testing.crash_choices import Oldest
from tests.unit.store.world import World

READ = parse("read:orders.*")
_numbers = itertools.count(1)


def random_id() -> bytes:
    return (next(_numbers) * 0x9E3779B97F4A7C15F39CC0605CEDC835).to_bytes(32, "big")[-16:]


@pytest.fixture
def world():
    made = World()
    yield made
    made.store.close()


@pytest.fixture
def tokens(world: World) -> TokenStore:
    return TokenStore(world.store, world.clock, random_id)


def test_a_token_is_found_by_its_text_with_what_was_said_about_it(tokens: TokenStore, world: World):
    made = tokens.create(scopes=READ, principal="ci", label="nightly", creator="local")

    found = tokens.find(made.text)

    assert found == made.token
    assert (found.principal, found.scopes, found.label) == ("ci", "read:orders.*", "nightly")
    assert found.expires_us == world.clock.now_us() + VALID_US


def test_the_secret_is_kept_nowhere(tokens: TokenStore, world: World):
    made = tokens.create(scopes=READ, creator="local")
    secret = made.text.split("_", 2)[2][:43]

    stored = b"".join(world.disk.read(path) for path in world.files())

    assert made.token.digest.encode() in stored
    assert secret.encode() not in stored
    assert secret not in repr(tokens.current())


@pytest.mark.parametrize("end", ["reopen", "kill"])
def test_tokens_and_revocations_survive(tokens: TokenStore, world: World, end: str):
    kept = tokens.create(scopes=READ, creator="local")
    gone = tokens.create(scopes=READ, creator="local")
    tokens.revoke(gone.token.id)

    store = getattr(world, end)()
    later = TokenStore(store, world.clock, random_id)

    assert not later.find(kept.text).invalid_reason(world.clock.now_us())
    assert "revoked" in later.find(gone.text).invalid_reason(world.clock.now_us())


def test_a_revocation_is_durable_when_it_returns(tokens: TokenStore, world: World):
    made = tokens.create(scopes=READ, creator="local")
    tokens.revoke(made.token.id)

    world.disk.power_off()
    world.disk = world.disk.crash(Oldest())
    world.store.close()
    world.store = world.open()
    later = TokenStore(world.store, world.clock, random_id)

    assert "revoked" in later.find(made.text).invalid_reason(world.clock.now_us())


def test_everybody_may_have_two_tokens_that_are_valid(tokens: TokenStore):
    first = tokens.create(scopes=READ, principal="ci", creator="local")
    tokens.create(scopes=READ, principal="ci", creator="local")
    tokens.create(scopes=READ, principal="other", creator="local")

    with pytest.raises(Conflict, match="2 valid tokens"):
        tokens.create(scopes=READ, principal="ci", creator="local")
    tokens.revoke(first.token.id)
    tokens.create(scopes=READ, principal="ci", creator="local")


def test_a_token_that_is_over_makes_room(tokens: TokenStore, world: World):
    for _ in range(2):
        tokens.create(scopes=READ, principal="ci", creator="local", valid_us=DAY_US)
    world.clock.advance(86_400)

    tokens.create(scopes=READ, principal="ci", creator="local")


def test_rotating_leaves_both_valid_for_the_grace(tokens: TokenStore, world: World):
    old = tokens.create(scopes=READ, principal="ci", label="nightly", creator="local")

    new = tokens.rotate(old.token.id, creator="local", grace_us=DAY_US, valid_us=VALID_US)
    both = [tokens.find(each.text).invalid_reason(world.clock.now_us()) for each in (old, new)]
    world.clock.advance(86_400)
    after = [tokens.find(each.text).invalid_reason(world.clock.now_us()) for each in (old, new)]

    assert both == ["", ""]
    assert after == ["this token has expired", ""]
    assert (new.token.principal, new.token.scopes) == ("ci", "read:orders.*")


def test_rotating_without_grace_revokes_at_once(tokens: TokenStore, world: World):
    old = tokens.create(scopes=READ, creator="local")

    tokens.rotate(old.token.id, creator="local", grace_us=0, valid_us=VALID_US)

    assert "revoked" in tokens.find(old.text).invalid_reason(world.clock.now_us())


def test_a_token_that_is_not_valid_is_not_rotated_back_to_life(tokens: TokenStore):
    old = tokens.create(scopes=READ, creator="local")
    tokens.revoke(old.token.id)

    with pytest.raises(Conflict, match="revoked"):
        tokens.rotate(old.token.id, creator="local", grace_us=0, valid_us=VALID_US)


def test_revoking_twice_changes_nothing(tokens: TokenStore, world: World):
    made = tokens.create(scopes=READ, creator="local")
    first = tokens.revoke(made.token.id)
    world.clock.advance(10)

    assert tokens.revoke(made.token.id) == first


@pytest.mark.parametrize(
    "wrong",
    [
        {"principal": "a b"},
        {"principal": "x" * 129},
        {"label": "two\nlines"},
        {"label": "\x1b[31m"},
        {"valid_us": VALID_US_MAX + 1},
        {"not_before_us": 2**60},
    ],
    ids=str,
)
def test_what_cannot_be_is_refused(tokens: TokenStore, wrong):
    with pytest.raises(Invalid):
        tokens.create(scopes=READ, creator="local", **wrong)

    assert tokens.current() == {}


def test_tokens_that_ended_a_year_ago_are_forgotten_and_their_place_is_not_open(tokens, world):
    old = [tokens.create(scopes=READ, creator="local") for _ in range(2)]
    tokens.revoke(old[0].token.id)
    tokens.note_used({old[0].token.id: "2026-11-16"})
    world.clock.advance(366 * 86_400)
    kept = tokens.create(scopes=READ, creator="local")
    both = set(tokens.current())
    world.clock.advance(91 * 86_400)

    tokens.create(scopes=READ, creator="local")

    assert both == {old[1].token.id, kept.token.id} | {old[0].token.id}
    assert not {each.token.id for each in old} & set(tokens.current())
    assert kept.token.id in tokens.current()
    assert TokenStore(world.store, world.clock, random_id).has_had_tokens


def test_an_unknown_id_is_told(tokens: TokenStore):
    with pytest.raises(NotFound):
        tokens.revoke("a" * 12)


def test_another_handle_sees_a_change_at_once(tokens: TokenStore, world: World):
    other = TokenStore(world.store, world.clock, random_id)
    made = tokens.create(scopes=READ, creator="local")

    seen = other.find(made.text)
    tokens.revoke(made.token.id)

    assert seen == made.token
    assert other.find(made.text).revoked_us


def test_the_day_of_the_last_use_is_on_record_and_is_no_change(tokens: TokenStore, world: World):
    made = tokens.create(scopes=READ, creator="local")
    before = tokens.version

    tokens.note_used({made.token.id: "2026-11-16"})

    assert TokenStore(world.store, world.clock, random_id).last_used(made.token.id) == "2026-11-16"
    assert (tokens.current(), tokens.version) == ({made.token.id: made.token}, before)


def test_a_store_that_had_tokens_once_never_looks_as_if_it_had_none(tokens: TokenStore):
    assert not tokens.has_had_tokens

    made = tokens.create(scopes=READ, creator="local")
    tokens.revoke(made.token.id)

    assert tokens.has_had_tokens


def _truncated(kv, key: bytes) -> None:
    kv.put(key, kv.get(key)[:-5])


def _more_scopes(kv, key: bytes) -> None:
    kv.put(key, kv.get(key).replace(b"read:orders.*", b"all"))


def _of_another(kv, key: bytes) -> None:
    other = next(each.key for each in kv.scan(b"token:") if each.key != key)
    kv.put(key, kv.get(other))


def _without_seal(kv, _key: bytes) -> None:
    kv.delete(b"all")


def _seal_damaged(kv, _key: bytes) -> None:
    kv.put(b"all", b"{}")


def _record_gone(kv, key: bytes) -> None:
    kv.delete(key)


def _older_version(kv, key: bytes) -> None:
    kv.put(key, kv.history(key)[-1].value)


DAMAGE = [
    _truncated,
    _more_scopes,
    _of_another,
    _without_seal,
    _seal_damaged,
    _record_gone,
    _older_version,
]


@pytest.mark.parametrize("damage", DAMAGE)
def test_whatever_is_wrong_with_one_record_nobody_is_found(
    tokens: TokenStore, world: World, damage
):
    revoked = tokens.create(scopes=READ, creator="local")
    others = tokens.create(scopes=READ, creator="local")
    tokens.revoke(revoked.token.id)
    kv = world.store.kv(TOPIC)

    damage(kv, b"token:" + revoked.token.id.encode())

    for registry in (tokens, TokenStore(world.store, world.clock, random_id)):
        for text in (revoked.text, others.text):
            with pytest.raises(Corrupt, match="cannot be trusted"):
                registry.find(text)


@pytest.mark.parametrize("damage", DAMAGE)
def test_revoking_all_ends_the_damage_and_every_token(tokens: TokenStore, world: World, damage):
    revoked = tokens.create(scopes=READ, creator="local")
    others = tokens.create(scopes=READ, creator="local")
    tokens.revoke(revoked.token.id)
    damage(world.store.kv(TOPIC), b"token:" + revoked.token.id.encode())

    tokens.revoke_all()
    fresh = tokens.create(scopes=READ, creator="local")

    now_us = world.clock.now_us()
    assert tokens.has_had_tokens
    assert tokens.find(fresh.text) == fresh.token
    for text in (revoked.text, others.text):
        found = tokens.find(text)
        assert found is None or "revoked" in found.invalid_reason(now_us)


def test_a_record_of_another_time_is_no_token(world: World):
    kv = world.store.kv(TOPIC, durability="fsync")
    kv.put("token:" + "a" * 12, msgspec.json.encode({"id": "a" * 12}))

    with pytest.raises(Corrupt):
        TokenStore(world.store, world.clock, random_id).current()
