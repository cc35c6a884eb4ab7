"""Identity of the lake that holds the records and tables of a store, for its checkpoints.

A lake is identified by the checksum of its ``store.json``, which has the id of the store and the
creation time of the lake. A copy of all its objects is the same lake, also at another address; a
lake that the store creates elsewhere is another one. So a store that is opened with the wrong
address does not take other objects, or an empty location, for its own records.

Only the first access to the lake reads ``store.json``: opening a store sends no request to the
object store. A damaged ``store.json`` rejects nothing, because manifests and files name their store
themselves; ``verify`` and the scrub job report it.
"""

from __future__ import annotations

import msgspec

from strandline.errors import Corrupt, Invalid
from strandline.lake import object_keys
from strandline.lake.manifest import fencing
from strandline.platform.objectstore.protocol import Objects


class LakeRef(msgspec.Struct, frozen=True, array_like=True):
    """A lake, and its address when it was last used."""

    id: str
    place: str


class IdentityCheck:
    """Rejects a lake that is not the store's. Safe from many threads."""

    def __init__(self, objects: Objects) -> None:
        self.ref: LakeRef | None = None
        """The lake of the store, for its next checkpoint; None until it has one."""
        self._objects = objects
        self._store_id = b""
        self._is_confirmed = False

    def expect(self, store_id: bytes, ref: LakeRef | None) -> None:
        """Set the store, and the lake that its newest checkpoint names."""
        self._store_id = store_id
        self.ref = ref or self.ref

    def confirm(self) -> None:
        """Raise when the address holds another lake than the store's, or none."""
        if self._is_confirmed or not self._store_id:
            return
        try:
            actual = fencing.read_identity(self._objects)
        except Corrupt:
            return
        if self.ref is not None and actual is not None and actual.store_id != self._store_id.hex():
            owner = bytes.fromhex(actual.store_id)
            raise Corrupt(
                fencing.foreign_lake_reason(owner, self._store_id),
                path=f"{self._objects.name}/{object_keys.STORE}",
            )
        if self.ref is not None and (actual is None or actual.checksum != self.ref.id):
            raise Invalid(wrong_lake_message(self._objects.name, self.ref, is_empty=actual is None))
        if actual is not None and actual.store_id == self._store_id.hex():
            self.ref = LakeRef(actual.checksum, self._objects.name)
            self._is_confirmed = True


def wrong_lake_message(place: str, ref: LakeRef, *, is_empty: bool) -> str:
    """The message of an error for an address that is not the lake of a store."""
    what = "holds no lake (store.json is missing)" if is_empty else "holds another lake"
    return (
        f"{place} {what}, and the records of this store are in lake {ref.id}, last at {ref.place}: "
        "set lake.url (--lake-url) to its address; to move a lake, copy all of its objects, "
        "store.json included"
    )
