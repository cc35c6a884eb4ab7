"""Promise: the registry names every checkpoint that a version still recoverable is put together
from, and no more."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.errors import Corrupt, UnsupportedFormat
from strandline.reservoir import checkpoint_registry
from strandline.reservoir.checkpoint_registry import FLAG_BUNDLE, FLAG_SNAPSHOT, RegistryRow

U64 = st.integers(0, (1 << 64) - 1)
ROWS = st.lists(st.builds(RegistryRow, U64, U64, U64, U64, U64), max_size=50)


def rows(kinds: str, first: int = 1) -> list[RegistryRow]:
    """Versions one behind the other: S is a snapshot, i is not."""
    return [
        RegistryRow(first + at, FLAG_SNAPSHOT * (kind == "S"), 0, 0, 0)
        for at, kind in enumerate(kinds)
    ]


def versions(found: list[RegistryRow]) -> list[int]:
    return [row.version for row in found]


@given(ROWS)
def test_a_registry_is_read_back_as_it_was_written(some):
    assert checkpoint_registry.decode(checkpoint_registry.encode(some), "object") == some


@pytest.mark.parametrize("flags", range(4))
def test_flags_tell_the_kind(flags):
    row = RegistryRow(1, flags, 0, 0, 0)

    assert row.is_snapshot == bool(flags & FLAG_SNAPSHOT)
    assert row.is_bundle == bool(flags & FLAG_BUNDLE)


def test_a_registry_of_another_length_is_noticed():
    encoded = checkpoint_registry.encode(rows("Si"))

    for damaged in (encoded[:-1], encoded + b"\0", encoded[:10], b"", b"x" * len(encoded)):
        with pytest.raises(Corrupt):
            checkpoint_registry.decode(damaged, "object")


def test_a_newer_format_is_not_read():
    encoded = bytearray(checkpoint_registry.encode(rows("Si")))
    encoded[4:6] = (checkpoint_registry.FORMAT_VERSION + 1).to_bytes(2, "little")

    with pytest.raises(UnsupportedFormat, match="upgrade"):
        checkpoint_registry.decode(bytes(encoded), "object")


@pytest.mark.parametrize(
    ("kinds", "chain"), [("S", [1]), ("Sii", [1, 2, 3]), ("SiSi", [3, 4]), ("SiS", [3])]
)
def test_a_version_is_put_together_from_the_newest_snapshot_on(kinds, chain):
    assert versions(checkpoint_registry.chain(rows(kinds))) == chain


@pytest.mark.parametrize(
    ("oldest", "kept"),
    [
        (9, [7, 8, 9]),
        (7, [7, 8, 9]),
        (6, [4, 5, 6, 7, 8, 9]),
        (4, [4, 5, 6, 7, 8, 9]),
        (3, [1, 2, 3, 4, 5, 6, 7, 8, 9]),
        (-5, [1, 2, 3, 4, 5, 6, 7, 8, 9]),
    ],
)
def test_rows_are_kept_from_the_snapshot_that_the_oldest_version_begins_with(oldest, kept):
    assert versions(checkpoint_registry.retained_rows(rows("SiiSiiSii"), oldest)) == kept


@given(st.text("Si", max_size=30), st.integers(-3, 35))
def test_every_version_from_the_oldest_on_can_be_put_together_from_what_is_kept(kinds, oldest):
    every = rows("S" + kinds)

    kept = checkpoint_registry.retained_rows(every, oldest)

    for at, row in enumerate(every):
        if row.version >= oldest:
            chain = checkpoint_registry.chain(every[: at + 1])
            assert (
                checkpoint_registry.chain([each for each in kept if each.version <= row.version])
                == chain
            )
