"""Consumer groups on the wire.

A member is identified by its name and an ``incarnation``: text that distinguishes it from another
member of the same name, and from itself before a restart. A delivery is a seq and a ``token``.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType, field

from strandline.api.bytes_fields import Base64, Json, Text


class GroupOptionsRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of a group; an absent one keeps its value, or is the default of a new group."""

    mode: Literal["shared", "exclusive", "key_shared"] | UnsetType = UNSET
    lease_s: float | UnsetType = UNSET
    deliveries_max: int | UnsetType = UNSET
    window: int | UnsetType = UNSET
    start: Literal["earliest", "latest"] | UnsetType = UNSET


class GroupInfo(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    group: str
    mode: str
    lease_s: float
    deliveries_max: int
    window: int
    start: str


class GroupsResponse(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    groups: list[str]


class DeleteGroupResponse(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    group: str
    deleted: bool


class JoinRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    member: str


class JoinResponse(msgspec.Struct, frozen=True, kw_only=True):
    member: str
    incarnation: str


class LeaveRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    member: str
    incarnation: str


class ReadRecords(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    member: str
    incarnation: str
    max: int = 1
    wait_ms: int = 0


class GroupDelivery(msgspec.Struct, frozen=True, kw_only=True):
    seq: int = field(name="$seq")
    ts: int = field(name="$ts")
    us: int = field(name="$us")
    token: int
    deliveries: int
    """Number of deliveries of the record, this one included."""
    key: Text = field(name="$key", default=UNSET)
    key_base64: Base64 = field(name="$key_base64", default=UNSET)
    tag: str | UnsetType = field(name="$tag", default=UNSET)
    node: str | UnsetType = field(name="$node", default=UNSET)
    data: Json = UNSET
    data_base64: Base64 = UNSET
    meta: Json = UNSET
    meta_base64: Base64 = UNSET


class DeliveriesResponse(msgspec.Struct, frozen=True, kw_only=True):
    deliveries: list[GroupDelivery]


class DeliveryHandle(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Identifies a delivery."""

    seq: int
    token: int


class AckDeliveriesRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Request of ack and extend."""

    member: str
    incarnation: str
    deliveries: list[DeliveryHandle]


class NackDeliveriesRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    member: str
    incarnation: str
    deliveries: list[DeliveryHandle]
    delay_ms: float = 0.0


class AckDeliveriesResponse(msgspec.Struct, frozen=True, kw_only=True):
    done: int
    skipped: list[int]
    """Seqs of deliveries that the member no longer holds."""


class SeekGroupRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The position at which the group continues: exactly one field."""

    to: int | Literal["earliest", "latest"] | None = None
    ts_us: int | None = None


class LagResponse(msgspec.Struct, frozen=True, kw_only=True):
    lag: int


class PendingDeliveryInfo(msgspec.Struct, frozen=True, kw_only=True):
    seq: int
    member: str
    deliveries: int
    held_s: float
    left_s: float


class PendingResponse(msgspec.Struct, frozen=True, kw_only=True):
    pending: list[PendingDeliveryInfo]


class GroupGap(msgspec.Struct, frozen=True, kw_only=True):
    gap_from: int
    gap_to: int
    reason: str


class GapsResponse(msgspec.Struct, frozen=True, kw_only=True):
    gaps: list[GroupGap]


class GroupState(msgspec.Struct, frozen=True, kw_only=True):
    """Statistics of a group; docs/guide/groups.md explains them."""

    topic: str
    name: str
    mode: str
    members: list[str]
    floor: int
    lag: int
    pending: int
    delivered: int
    redelivered: int
    acked: int
    nacked: int
    expired: int
    dead: int
    lost: int
    deleted: int
