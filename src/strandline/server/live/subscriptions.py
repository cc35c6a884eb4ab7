"""A subscription to a topic: which records, which of their fields, how much at once. Pure.

Feeds with an equal ``Wish`` and the same cursor get the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from strandline.api import live
from strandline.api.records import RecordFields
from strandline.errors import Invalid
from strandline.query.language.literals import LiteralTypeError, bind_leaf
from strandline.records import Record
from strandline.schema import FieldType, Schema, column_of
from strandline.server.live.frames import Wrapping
from strandline.views.table import condition as conditions
from strandline.views.table.condition import And, Condition, Not, Or
from strandline.views.table.evaluate import matches
from strandline.views.table.rows import plain_row
from strandline.views.table.validation import validator_of

RecordSelector = Callable[[Sequence[Record]], Sequence[Record]]


class RecordFilter(NamedTuple):
    """A filter of records by their tag, key and data."""

    tag: str | None = None
    tag_prefix: str | None = None
    key_prefix: bytes | None = None
    where: Condition | None = None

    @property
    def is_open(self) -> bool:
        return self == _OPEN

    def matches(self, record: Record) -> bool:
        """Whether tag and key match."""
        tag = record.tag
        if self.tag is not None and tag != self.tag:
            return False
        if self.tag_prefix is not None and not (tag or "").startswith(self.tag_prefix):
            return False
        if self.tag_prefix is not None and tag is None:
            return False
        if self.key_prefix is None:
            return True
        return record.key is not None and record.key.startswith(self.key_prefix)


_OPEN = RecordFilter()


class Subscription(NamedTuple):
    """Everything that the bytes of a subscriber depend on, besides its cursor."""

    wrapping: Wrapping
    shown: RecordFields
    node: str | None
    record_filter: RecordFilter
    limit: int
    size_max: int
    is_strong: bool


def subscription_of(
    request: live.WatchRequest | live.Subscribe, wrapping: Wrapping
) -> Subscription:
    """The subscription of a request, with defaults and bounds applied."""
    return Subscription(
        wrapping,
        RecordFields(
            tags=request.include_tags,
            meta=request.include_meta,
            data=request.include_data,
            micros=request.include_micros,
        ),
        request.node,
        _record_filter(request.filter),
        min(request.limit or live.LIMIT, live.LIMIT_MAX),
        min(request.max_batch_bytes or live.SIZE_OF_ZERO, live.SIZE_MAX),
        request.consistency == "strong",
    )


def _record_filter(filter_request: live.LiveFilter) -> RecordFilter:
    where = None
    if filter_request.where is not None:
        try:
            where = conditions.decode(msgspec.json.encode(filter_request.where))
        except (msgspec.MsgspecError, RecursionError) as error:
            raise Invalid(f"filter.where is not a condition: {error}") from error
    prefix = None if filter_request.key_prefix is None else filter_request.key_prefix.encode()
    return RecordFilter(filter_request.tag, filter_request.tag_prefix, prefix, where)


def selector_of(record_filter: RecordFilter, schema: Schema) -> RecordSelector:
    """A function that selects the matching records of a page."""
    if record_filter.is_open:
        return _all
    if record_filter.where is None:
        return lambda rows: [record for record in rows if record_filter.matches(record)]
    where = bind_condition(record_filter.where, schema.types())
    validator = validator_of(schema)

    def sift(rows: Sequence[Record]) -> Sequence[Record]:
        candidates = [record for record in rows if record_filter.matches(record)]
        rows_or_none = validator.decode_fitting([record.data for record in candidates])
        return [
            record
            for record, row in zip(candidates, rows_or_none, strict=True)
            if row is not None
            and matches(where, plain_row(schema, record.seq, record.ts, _context(record), row))
        ]

    return sift


def _all(rows: Sequence[Record]) -> Sequence[Record]:
    return rows


def _context(record: Record) -> str:
    return "" if record.key is None else record.key.decode(errors="replace")


def bind_condition(where: Condition, kinds: dict[str, FieldType]) -> Condition:
    """A condition with literals of its fields' types; Invalid when the schema has no such field."""
    match where:
        case Not(of):
            return Not(bind_condition(of, kinds))
        case And(of):
            return And(tuple(bind_condition(part, kinds) for part in of))
        case Or(of):
            return Or(tuple(bind_condition(part, kinds) for part in of))
    if where.field not in kinds:
        known = ", ".join(kinds) or "none: it has no schema"
        raise Invalid(f"the topic has no field {where.field!r} to filter by; it has {known}")
    try:
        return bind_leaf(where, column_of(where.field), kinds[where.field])
    except LiteralTypeError as error:
        raise Invalid(f"filter.where: {error}. {error.hint}".rstrip(". ")) from error


def is_pattern(name: str) -> bool:
    """Whether it is a pattern of topics. Names have no stars."""
    return "*" in name


def prefix_of(pattern: str) -> str:
    """The prefix of the names that a pattern matches."""
    if not pattern.endswith("*") or pattern.count("*") > 1:
        raise Invalid(f"{pattern!r} is not a pattern: write the prefix of a name, then one *")
    return pattern[:-1]
