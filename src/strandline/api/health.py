"""What a server says of itself, on the wire."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType


class Alive(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The process answers; ``degraded`` while it accepts no appends, or its disk is slow."""

    status: Literal["ok", "degraded"]
    version: str
    uptime_ms: int
    store_id: str | UnsetType = UNSET
    """Which store this is: for whoever is known."""
    reason: str | UnsetType = UNSET
    """The error that appends get: ``disk_full``, or ``poisoned`` after a failed sync; or
    ``slow_disk``: appends are accepted, and syncs take long."""
    slow_syncs: int | UnsetType = UNSET
    """Syncs of the last minute that took more than 500 ms, when the disk is slow."""
    slowest_sync_ms: int | UnsetType = UNSET
    """How long the slowest of them took."""


class Ready(msgspec.Struct, kw_only=True):
    """The server takes requests."""

    status: Literal["ready"]
    wal_replay_complete: bool
    topics: int


class StoreHealth(msgspec.Struct, kw_only=True):
    """How the store is doing: green, yellow (look at it) or red (it does not work), and why."""

    status: Literal["green", "yellow", "red"]
    reasons: list[str]
    jobs: list[dict[str, Any]]
    free_bytes: int
    scrub: dict[str, Any]
    store_id: str
    readonly: bool
