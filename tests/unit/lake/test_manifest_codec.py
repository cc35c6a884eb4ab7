"""Promise (C1, C2, C3, C10): a manifest comes back as it was, or says what is wrong with it."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64
from xxhash import xxh3_64

from strandline.errors import Conflict, Corrupt, Invalid, StrandlineError, UnsupportedFormat
from strandline.lake.manifest import manifest_codec
from strandline.lake.manifest.manifest import Manifest, RemovedFile
from strandline.lake.manifest.manifest_codec import DELTAS_MAX, ManifestKey, ManifestVersion
from strandline.schema import Schema
from tests.unit.lake.histories import STORE_ID, TOPIC_ID, lake_file

FIRST = Manifest(number=1, topic_id=TOPIC_ID, name="órders", epoch=3, created_us=9)
FULL = msgspec.structs.replace(
    FIRST,
    term=2,
    floor=3,
    files=(lake_file(1, 10), lake_file(11, 20)),
    deleted=BitMap64([4, 7, 2**40]),
    removed=(RemovedFile("a.parquet", 1, 5),),
    schemas=(Schema(2, {"price": "f64"}),),
)


def place(number: int, *, store_id: bytes = STORE_ID, topic_id: int = TOPIC_ID) -> ManifestKey:
    return ManifestKey(store_id, topic_id, number)


def encoded(
    manifest: Manifest, before: ManifestVersion | None = None
) -> tuple[bytes, ManifestVersion]:
    return manifest_codec.encode(manifest, before, store_id=STORE_ID, attempt="ab" * 16)


def following(version: ManifestVersion, **changes: object) -> tuple[bytes, ManifestVersion]:
    manifest = version.manifest
    return encoded(
        msgspec.structs.replace(manifest, number=manifest.number + 1, **changes), version
    )


def samples() -> dict[str, tuple[bytes, ManifestVersion | None, int]]:
    """A full object and a delta, each with the version before it."""
    full, version = encoded(FULL)
    delta, _ = following(version, floor=12, files=FULL.files[1:], deleted=BitMap64([13]))
    return {"full": (full, None, 1), "delta": (delta, version, 2)}


SEQS = st.integers(1, 60)
CHANGES = st.one_of(
    st.tuples(st.just("add"), SEQS, st.integers(1, 9)),
    st.tuples(st.just("replace"), SEQS, st.integers(0, 2**16)),
    st.tuples(st.just("floor"), SEQS, st.just(0)),
    st.tuples(st.just("delete"), SEQS, SEQS),
    st.tuples(st.just("epoch"), SEQS, st.just(0)),
    st.tuples(st.just("forget"), SEQS, st.just(0)),
    st.tuples(st.just("schema"), SEQS, st.integers(0, 3)),
    st.tuples(st.just("drop"), st.just(0), st.just(0)),
)


def changed(old: Manifest, change: tuple[str, int, int]) -> Manifest:
    kind, first, second = change
    new = old
    try:
        if kind == "add":
            new = old.with_added([lake_file(first, first + second)])
        elif kind == "replace" and (file := old.file_at(first)):
            fresh = lake_file(file.first_seq, file.last_seq, salt=second)
            seqs = BitMap64(range(file.first_seq, file.last_seq))
            new = old.with_replaced([file.name()], [fresh], at_us=first, purged=seqs)
        elif kind == "floor":
            new = old.with_floor(first, at_us=second)
        elif kind == "delete":
            new = old.with_deleted(BitMap64([first, second]))
        elif kind == "epoch":
            new = old.with_epoch(first)
        elif kind == "schema":
            new = old.with_schema(Schema(first, {"n": "i64"} if second else {}))
        elif kind == "forget":
            new = old.without_removed([entry.name for entry in old.removed[:first]])
        elif kind == "drop":
            new = old.with_dropped(at_us=0)
    except (Conflict, Invalid):
        pass
    return msgspec.structs.replace(new, number=old.number + 1, created_us=old.created_us + 1)


@settings(max_examples=150, deadline=None)
@given(st.lists(CHANGES, max_size=40))
def test_every_version_of_a_history_is_read_as_it_was_written(changes):
    data, version = encoded(FIRST)
    written = [(data, version)]
    for change in changes:
        written.append(encoded(changed(version.manifest, change), version))
        version = written[-1][1]

    read = [None]
    for number, (data, _) in enumerate(written, 1):
        read.append(manifest_codec.apply_object(read[-1], data, place(number)))

    assert read[1:] == [version for _, version in written]
    for data, version in written:
        if version.base == version.manifest.number:
            assert manifest_codec.apply_object(None, data, place(version.base)) == version


def test_a_full_manifest_is_due_after_so_many_deltas():
    _, version = encoded(FULL)
    bases = [version.base]

    for _ in range(40):
        bases.append((version := following(version, epoch=bases[-1])[1]).base)

    assert max(number - base for number, base in enumerate(bases, 1)) == DELTAS_MAX
    assert set(bases) == {1, 1 + (DELTAS_MAX + 1), 1 + 2 * (DELTAS_MAX + 1)}


def test_deltas_are_never_heavier_together_than_a_full_manifest():
    _, version = encoded(FULL)
    files = tuple(lake_file(first, first + 9) for first in range(1, 10_000, 10))

    _, heavy = following(version, files=files)
    _, light = following(heavy, files=files[1:])

    assert (heavy.base, light.base) == (2, 2)


@pytest.mark.parametrize("kind", ["full", "delta"])
def test_any_changed_byte_is_noticed(kind):
    data, before, number = samples()[kind]
    silent = []

    for offset in range(len(data)):
        for flip in (0x01, 0x20, 0x80):
            damaged = bytearray(data)
            damaged[offset] ^= flip
            try:
                manifest_codec.apply_object(before, bytes(damaged), place(number))
            except Corrupt:
                continue
            silent.append(offset)

    assert silent == []


@pytest.mark.parametrize("kind", ["full", "delta"])
def test_any_cut_and_anything_appended_is_noticed(kind):
    data, before, number = samples()[kind]

    for damaged in [*(data[:size] for size in range(len(data))), data + b"\n", data + b" "]:
        with pytest.raises(Corrupt):
            manifest_codec.apply_object(before, damaged, place(number))


@pytest.mark.parametrize(
    "other", [place(2), place(1, topic_id=8), place(1, store_id=bytes(16))], ids=str
)
def test_a_manifest_in_the_place_of_another_is_noticed(other):
    data, _ = encoded(FULL)

    with pytest.raises(Corrupt):
        manifest_codec.apply_object(None, data, other)


def test_deltas_of_two_histories_are_not_mixed():
    _, one = encoded(FULL)
    _, other = encoded(msgspec.structs.replace(FULL, epoch=9))
    delta, _ = following(one, floor=5)

    assert manifest_codec.apply_object(one, delta, place(2)).manifest.floor == 5
    with pytest.raises(Corrupt, match="does not follow"):
        manifest_codec.apply_object(other, delta, place(2))
    with pytest.raises(Corrupt):
        manifest_codec.apply_object(None, delta, place(2))


def sealed(header: str, body: str, number: int = 1) -> bytes:
    """An object with any content and a good checksum, as only a bug of ours could write it."""
    line = header.encode()[:-18]
    digest = xxh3_64(line, seed=place(number).seed)
    digest.update(body.encode() + b"\n")
    return line + digest.hexdigest().encode() + b'"}\n' + body.encode() + b"\n"


def header(**changes: object) -> str:
    fields = msgspec.json.decode(encoded(FULL)[0].partition(b"\n")[0])
    return msgspec.json.encode(fields | changes).decode()


BODY = encoded(FULL)[0].partition(b"\n")[2].decode().strip()


def test_a_newer_format_asks_for_an_upgrade():
    data = sealed(header(format=2, kind="tree"), "something new")

    with pytest.raises(UnsupportedFormat, match="format 2"):
        manifest_codec.apply_object(None, data, place(1))


@pytest.mark.parametrize(
    ("line", "body"),
    [
        (header(kind="tree"), BODY),
        (header(kind="delta"), BODY),
        (header(base=0), BODY),
        (header(base=2), BODY),
        (header(number=2), BODY),
        (header(topic_id=8), BODY),
        ('[1, "0123456789abcdef"}', BODY),
        (header(), "{}"),
        (header(), "[]"),
        (header(), ""),
        (header(), BODY.replace('"deleted":"', '"deleted":"AAAA')),
        (header(), BODY.replace("[[11,", "[[5,").replace("[11,", "[5,")),
    ],
)
def test_a_manifest_that_makes_no_sense_is_corrupt_not_a_surprise(line, body):
    with pytest.raises(Corrupt):
        manifest_codec.apply_object(None, sealed(line, body), place(1))


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300), st.binary(max_size=300))
def test_garbage_is_taken_calmly(line, body):
    for data in (line, line + b"\n" + body, line + b'0123456789abcdef"}\n' + body + b"\n"):
        with pytest.raises(StrandlineError):
            manifest_codec.apply_object(None, data, place(1))
