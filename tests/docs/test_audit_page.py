"""Promise: what docs/format/audit.md says of tokens and entries is what a server writes."""

from __future__ import annotations

import base64
import hashlib
import re
import zlib

import msgspec

from strandline.security import audit, token_store, tokens
from strandline.security.audit import AuditLogEntry
from tests.house.tree import read_document

PAGE = read_document("docs/format/audit.md")
FIRST = AuditLogEntry(
    number=1,
    at_us=1_700_000_000_000_000,
    kind="token-created",
    who="local",
    address="127.0.0.1",
    what={"token": "abcdefghijkl", "scopes": "all"},
    previous="0" * 64,
)


def test_the_entries_of_the_page_are_what_is_written():
    first = audit.with_hash(FIRST)
    second = audit.with_hash(
        AuditLogEntry(
            number=2,
            at_us=FIRST.at_us + 1,
            kind="start",
            who="server",
            address="",
            what={},
            previous=first.hash,
        )
    )

    told = re.findall(r"^```json\n(.*)\n```", PAGE, re.MULTILINE)

    assert told == [audit.encode(first).decode(), audit.encode(second).decode()]


def test_a_stranger_can_check_the_hash_with_nothing_but_the_page():
    first, second = re.findall(r"^```json\n(.*)\n```", PAGE, re.MULTILINE)

    for text in (first, second):
        entry = msgspec.json.decode(text)
        bare = text.replace(f'"hash":"{entry["hash"]}"', '"hash":""').encode()
        before = bytes.fromhex(entry["previous"])
        assert hashlib.sha256(before + bare).hexdigest() == entry["hash"]


def test_every_name_that_is_kept_is_on_the_page():
    kept = [*AuditLogEntry.__struct_fields__, *tokens.Token.__struct_fields__]
    kept += [*token_store._Seal.__struct_fields__, audit.TOPIC, token_store.TOPIC, audit.RESTART]

    assert [name for name in kept if f"`{name}`" not in PAGE] == []


def test_a_token_is_made_as_the_page_says():
    text, given = tokens.make(lambda: bytes(range(16)))

    said, _, checksum = text.rpartition("_")
    crc = zlib.crc32(said.encode()).to_bytes(4, "big")
    assert said == f"strand1_{given.id}_{given.secret}"
    assert checksum == base64.urlsafe_b64encode(crc).decode().rstrip("=")
    assert tokens.digest_of(given.secret) == hashlib.sha256(given.secret.encode()).hexdigest()
