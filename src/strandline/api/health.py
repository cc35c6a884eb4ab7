"""Health and readiness of a server on the wire."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType


class AliveResponse(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The process responds; ``degraded`` while it accepts no appends, or its disk is slow."""

    status: Literal["ok", "degraded"]
    version: str
    uptime_ms: int
    store_id: str | UnsetType = UNSET
    """The id of the store; only for authenticated clients."""
    reason: str | UnsetType = UNSET
    """The error that appends get: ``disk_full``, or ``poisoned`` after a failed sync; or
    ``slow_disk``: appends are accepted, and syncs take long."""
    slow_syncs: int | UnsetType = UNSET
    """Syncs of the last minute that took more than 500 ms, when the disk is slow."""
    slowest_sync_ms: int | UnsetType = UNSET
    """Duration of the slowest of them."""


class ReadyResponse(msgspec.Struct, kw_only=True):
    """The server accepts requests."""

    status: Literal["ready"]
    wal_replay_complete: bool
    topics: int


class StoreHealth(msgspec.Struct, kw_only=True):
    """Health of the store: green, yellow (needs attention) or red (does not work), with reasons."""

    status: Literal["green", "yellow", "red"]
    reasons: list[str]
    jobs: list[dict[str, Any]]
    free_bytes: int
    scrub: dict[str, Any]
    store_id: str
    readonly: bool
