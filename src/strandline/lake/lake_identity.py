"""Which lake the records and tables of a store are in, as its checkpoints remember it.

A lake is known by the checksum of its ``store.json``, which has the id of the store and the time at
which the lake was made. A copy of all its objects is the same lake, also in another place; a lake
that the store makes elsewhere is another one. So a store that was opened with the wrong place does
not take what lies there, or nothing at all, for what it has stored.

The first access to the lake reads ``store.json``, none after it: opening a store asks the object
store nothing. One that is damaged refuses nothing, because manifests and files name their store
themselves; ``verify`` and the scrub job report it.
"""

from __future__ import annotations

import msgspec

from strandline.errors import Corrupt, Invalid
from strandline.lake import object_keys
from strandline.lake.manifest import fencing
from strandline.platform.objectstore.protocol import Objects


class LakeRef(msgspec.Struct, frozen=True, array_like=True):
    """A lake, and where it was when it was last used."""

    id: str
    place: str


class IdentityCheck:
    """Refuses a lake that is not the store's. Safe from many threads."""

    def __init__(self, objects: Objects) -> None:
        self.ref: LakeRef | None = None
        """The lake of the store, for its next checkpoint; None as long as it has none."""
        self._objects = objects
        self._store_id = b""
        self._is_confirmed = False

    def expect(self, store_id: bytes, ref: LakeRef | None) -> None:
        """The store, and the lake that its newest checkpoint names."""
        self._store_id = store_id
        self.ref = ref or self.ref

    def confirm(self) -> None:
        """Raise when another lake lies there than the store's, or none."""
        if self._is_confirmed or not self._store_id:
            return
        try:
            found = fencing.read_identity(self._objects)
        except Corrupt:
            return
        if self.ref is not None and found is not None and found.store_id != self._store_id.hex():
            told = bytes.fromhex(found.store_id)
            raise Corrupt(
                fencing.of_another_lake(told, self._store_id),
                path=f"{self._objects.name}/{object_keys.STORE}",
            )
        if self.ref is not None and (found is None or found.checksum != self.ref.id):
            raise Invalid(refusal(self._objects.name, self.ref, is_empty=found is None))
        if found is not None and found.store_id == self._store_id.hex():
            self.ref = LakeRef(found.checksum, self._objects.name)
            self._is_confirmed = True


def refusal(place: str, ref: LakeRef, *, is_empty: bool) -> str:
    """Why a place is not the lake of a store, and what to do about it."""
    what = "holds no lake (store.json is missing)" if is_empty else "holds another lake"
    return (
        f"{place} {what}, and the records of this store are in lake {ref.id}, last at {ref.place}: "
        "set lake.url (--lake-url) to where it is now; to move a lake, copy all of its objects, "
        "store.json included"
    )
