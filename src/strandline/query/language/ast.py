"""The AST of commands, as ``parser.py`` returns it. Pure.

Places (``at``) are offsets in the text, for errors; -1 when a command was not parsed from text.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from strandline.query.language.periods import Period
from strandline.views.table.condition import Condition

Direction = Literal["followed", "preceded"]
Permission = Literal["READ", "WRITE"]


class Name(msgspec.Struct, frozen=True):
    """A name in a command and its place; in a sequence optionally with its event."""

    text: str
    at: int = -1
    event: str = ""


class Define(msgspec.Struct, frozen=True, kw_only=True):
    event: Name
    fields: dict[str, str | list[str]]
    version: int | None = None


class StoreEvent(msgspec.Struct, frozen=True, kw_only=True):
    event: Name
    context: str
    payload: bytes
    """A JSON object, as in the text."""
    payload_at: int = -1


class Aggregate(msgspec.Struct, frozen=True, kw_only=True):
    """An aggregate over rows. ``count`` without a field counts rows, with a field its values."""

    function: Literal["count", "count_unique", "total", "avg", "min", "max"]
    field: Name | None = None

    @property
    def column(self) -> str:
        """The name in a result."""
        return f"{self.function}_{self.field.text}" if self.field else self.function


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A further event of a sequence, relative to the one before it."""

    direction: Direction
    event: Name
    within_us: int | None = None
    """The maximum distance in time; both ends included."""


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """QUERY or FIND."""

    event: Name
    steps: tuple[Step, ...] = ()
    context: str | None = None
    since: str | int | float | None = None
    since_at: int = -1
    using: Name | None = None
    """The time field that SINCE, PER and sequences use; without one, the time of the append."""
    returning: tuple[Name, ...] | None = None
    """None and () return all fields."""
    linked_by: Name | None = None
    where: Condition | None = None
    aggregates: tuple[Aggregate, ...] = ()
    per: Period | None = None
    by: tuple[Name, ...] = ()
    order_by: Name | None = None
    descending: bool = False
    limit: int | None = None
    offset: int | None = None
    offset_at: int = -1


class ReplayCommand(msgspec.Struct, frozen=True, kw_only=True):
    """Events of one context, of one type or all, as they were appended."""

    context: str
    event: Name | None = None
    since: str | int | float | None = None
    since_at: int = -1
    using: Name | None = None
    returning: tuple[Name, ...] | None = None


class Remember(msgspec.Struct, frozen=True, kw_only=True):
    query: Query
    alias: str
    text: str
    """The text of the query."""
    rows_max: int | None = None
    """KEEP n ROWS."""
    age_max_us: int | None = None
    """KEEP 7 DAYS."""


class Show(msgspec.Struct, frozen=True):
    alias: str


class Forget(msgspec.Struct, frozen=True):
    alias: str


class DeleteEvents(msgspec.Struct, frozen=True, kw_only=True):
    """DELETE event [FOR context] [WHERE ...]: the rows are removed at once."""

    event: Name
    context: str | None = None
    where: Condition | None = None


class Explain(msgspec.Struct, frozen=True):
    query: Query | ReplayCommand


class Flush(msgspec.Struct, frozen=True):
    pass


class Ping(msgspec.Struct, frozen=True):
    pass


class BatchCommand(msgspec.Struct, frozen=True):
    commands: tuple[Command, ...]
    texts: tuple[str, ...]


class Metric(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a chart."""

    aggregate: Aggregate
    event: Name
    then: Name | None = None
    """If set, only events that an event of this type follows in the same context."""
    where: Condition | None = None


class Plot(msgspec.Struct, frozen=True, kw_only=True):
    metrics: tuple[Metric, ...]
    breakdown: tuple[Name, ...] = ()
    over: Period | None = None
    over_field: Name | None = None
    top: int | None = None
    top_by: Name | None = None


class CreateUser(msgspec.Struct, frozen=True, kw_only=True):
    user: str
    key: str | None = None
    roles: tuple[str, ...] = ()


class RevokeKey(msgspec.Struct, frozen=True):
    user: str


class ListUsers(msgspec.Struct, frozen=True):
    pass


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    permissions: tuple[Permission, ...]
    events: tuple[Name, ...]
    user: str


class Revoke(msgspec.Struct, frozen=True, kw_only=True):
    permissions: tuple[Permission, ...]
    """Empty: all."""
    events: tuple[Name, ...]
    user: str


class ShowPermissions(msgspec.Struct, frozen=True):
    user: str


Command: TypeAlias = (
    Define
    | StoreEvent
    | Query
    | ReplayCommand
    | Remember
    | Show
    | Forget
    | DeleteEvents
    | Explain
    | Flush
    | Ping
    | BatchCommand
    | Plot
    | CreateUser
    | RevokeKey
    | ListUsers
    | Grant
    | Revoke
    | ShowPermissions
)

Arguments = dict[str, Any]
