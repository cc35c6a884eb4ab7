"""Promise: nobody changes, leaves out or moves an entry of the audit log unnoticed."""

from __future__ import annotations

import hashlib

import msgspec
import pytest

from strandline.errors import Corrupt
from strandline.log.topic.topic import Topic
from strandline.security import audit
from strandline.security.audit import TOPIC, Audit, AuditLogEntry, encode, verify, with_hash
from tests.unit.store.world import World, read_all

ENTRIES = 6


@pytest.fixture
def world():
    made = World()
    yield made
    made.store.close()


@pytest.fixture
def log(world: World) -> Audit:
    return Audit(world.store, world.clock)


def written(world: World, log: Audit, count: int = ENTRIES) -> list[AuditLogEntry]:
    for number in range(count):
        log.note("token-created", {"token": f"t{number}"}, who="local", address="127.0.0.1").wait()
    return [audit.decode(record) for record in read_all(world.store.existing_topic(TOPIC))]


def topic_of(store, records: list[bytes]) -> Topic:
    """A log of the same kind, with these records."""
    topic = store.topic("forged", durability="fsync")
    topic.append_many(records)
    return topic


def test_what_was_noted_is_there_in_order_with_who_and_where(world: World, log: Audit):
    found = written(world, log)

    assert [entry.number for entry in found] == list(range(1, ENTRIES + 1))
    assert found[0] == audit.with_hash(
        AuditLogEntry(
            number=1,
            at_us=world.clock.now_us(),
            kind="token-created",
            who="local",
            address="127.0.0.1",
            what={"token": "t0"},
            previous="0" * 64,
        )
    )


def test_the_hash_is_the_one_that_the_format_tells(world: World, log: Audit):
    first, second, *_ = written(world, log)
    bare = msgspec.structs.asdict(second) | {"hash": ""}
    text = msgspec.json.encode(dict(sorted(bare.items())))

    assert second.previous == first.hash
    assert second.hash == hashlib.sha256(bytes.fromhex(first.hash) + text).hexdigest()


def test_the_chain_goes_on_after_a_restart_of_the_server(world: World, log: Audit):
    written(world, log)

    later = Audit(world.reopen(), world.clock)
    later.note("start", {}).wait()
    found = verify(world.store.existing_topic(TOPIC))

    assert (found.is_intact, found.entries, found.restarts) == (True, ENTRIES + 1, 0)


def _changed(chain: list[AuditLogEntry], place: int) -> list[AuditLogEntry]:
    chain[place] = msgspec.structs.replace(chain[place], who="somebody else")
    return chain


def _changed_and_sealed(chain: list[AuditLogEntry], place: int) -> list[AuditLogEntry]:
    chain[place] = with_hash(msgspec.structs.replace(chain[place], who="somebody else"))
    return chain


def _left_out(chain: list[AuditLogEntry], place: int) -> list[AuditLogEntry]:
    return chain[:place] + chain[place + 1 :]


def _swapped(chain: list[AuditLogEntry], place: int) -> list[AuditLogEntry]:
    chain[place], chain[place + 1] = chain[place + 1], chain[place]
    return chain


def _repeated(chain: list[AuditLogEntry], place: int) -> list[AuditLogEntry]:
    return chain[: place + 1] + chain[place:]


def _not_hex(chain: list[AuditLogEntry], place: int) -> list[AuditLogEntry]:
    chain[place] = msgspec.structs.replace(chain[place], previous="none")
    return chain


@pytest.mark.parametrize("place", range(ENTRIES - 1))
@pytest.mark.parametrize(
    "forge", [_changed, _changed_and_sealed, _left_out, _swapped, _repeated, _not_hex]
)
def test_whatever_is_forged_is_found(world: World, log: Audit, forge, place: int):
    chain = forge(written(world, log), place)

    found = verify(topic_of(world.store, [encode(entry) for entry in chain]))

    assert not found.is_intact
    assert found.broken[0].seq in (place + 1, place + 2)


@pytest.mark.parametrize("record", [b"", b"{}", b"not json", b"[1]"])
def test_a_record_that_is_no_entry_is_found(world: World, log: Audit, record: bytes):
    chain = [encode(entry) for entry in written(world, log)]

    found = verify(topic_of(world.store, [*chain[:3], record, *chain[3:]]))

    assert not found.is_intact
    assert found.broken[0].seq == 4


def test_a_log_that_does_not_hold_keeps_the_server_from_starting(world: World, log: Audit):
    written(world, log)
    world.store.topic(TOPIC).append(b'{"forged": true}')

    with pytest.raises(Corrupt, match="is broken") as caught:
        Audit(world.store, world.clock)

    assert "strandline audit restart" in "".join(caught.value.__notes__)


def test_it_goes_on_once_somebody_has_looked_and_says_so_for_ever(world: World, log: Audit):
    written(world, log)
    topic = world.store.topic(TOPIC)
    topic.append(b'{"forged": true}')

    audit.restart(world.store, world.clock, reason="looked at it").wait()
    Audit(world.store, world.clock).note("start", {}).wait()
    found = verify(topic)

    assert (found.is_intact, found.restarts) == (True, 1)
    assert b"forged" in b"".join(record.data for record in read_all(topic))


def test_a_forged_restart_is_an_entry_like_others_and_must_be_whole(world: World, log: Audit):
    chain = written(world, log)
    fake = msgspec.structs.replace(chain[3], kind=audit.RESTART)
    chain[3] = fake

    assert not verify(topic_of(world.store, [encode(entry) for entry in chain])).is_intact


@pytest.mark.parametrize(
    "text",
    ["a\r\nb", "\x1b[31mred", "x\x00y", "\x7f", "\x9b1m", "\u202eevil", "\u2028", "\ud800", "é"],
)
def test_what_comes_from_outside_cannot_be_mistaken_for_anything_else(
    world: World, log: Audit, text: str
):
    log.note("denied", {"named": text}, who=text, address=text).wait()

    (record,) = read_all(world.store.existing_topic(TOPIC))
    entry = audit.decode(record)

    assert all(word.isprintable() for word in (entry.what["named"], entry.who, entry.address))
    assert b"\n" not in record.data
    assert verify(world.store.existing_topic(TOPIC)).is_intact


def test_text_is_cut_short_and_has_no_secrets(world: World, log: Audit):
    secret = "S" * 43
    log.note("denied", {"named": f"strand1_{'a' * 12}_{secret}_xxxxxx" + "y" * 10_000}).wait()

    (record,) = read_all(world.store.existing_topic(TOPIC))

    assert secret.encode() not in record.data
    assert len(record.data) < 1000


def test_strangers_cannot_fill_the_log(world: World, log: Audit):
    for _ in range(1000):
        log.note_failure("denied", {}, address="1.2.3.4")
    world.store.sync()
    in_a_minute = world.store.existing_topic(TOPIC).head_seq
    world.clock.advance(60)
    log.note_failure("denied", {}, address="1.2.3.4")
    world.store.sync()

    last = audit.decode(read_all(world.store.existing_topic(TOPIC))[-1])

    assert in_a_minute == audit.FAILURES_PER_MINUTE
    assert last.what == {"left_out": str(1000 - audit.FAILURES_PER_MINUTE)}
