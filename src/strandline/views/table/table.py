"""An event table: events of one kind with a schema, stored once and queryable at once.

    users = store.table("signup")
    users.define({"plan": "string", "country": ["US", "DE"]})
    users.store("user-42", {"plan": "pro", "country": "US"})

An event is a plain record of the table's topic: its key is the context, its data the JSON object.
Any other record appended to the topic is an event, too, if it fits the schema; a record that does
not fit is left out and counted.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from strandline.errors import Invalid
from strandline.records import AppendResult
from strandline.schema import Schema
from strandline.views.table import control_records, schema_evolution
from strandline.views.table.condition import Condition
from strandline.views.table.fold import TableFold, seqs_matching
from strandline.views.table.maintenance import TableMaintenance
from strandline.views.table.table_snapshot import PinnedTable
from strandline.views.table.validation import Validator, validator_of
from strandline.views.view import ViewAppend
from strandline.views.view_runner import ViewRunner

Event = Mapping[str, Any] | bytes | str

_PASSIVES_MAX = 8
"""Memtables that wait to be written; a thread that stores more writes a file itself."""
_ROW_RAM = 512
"""Bytes requested from the memory budget for an event besides its data."""
_CONTEXT_MAX = 1024


class TableStats(msgspec.Struct, frozen=True, kw_only=True):
    """Counts and sizes of a table."""

    rows: int
    memory_rows: int
    """Rows that are not in a file yet."""
    files: int
    file_bytes: int
    zones: int
    hidden: int
    """Deleted rows that files still have."""
    misfits: int
    """Records of the topic that are not events of the table."""
    schema_version: int
    position: int


class Table:
    """One event table. Safe to call from many threads."""

    def __init__(self, host: ViewRunner[TableFold]) -> None:
        self._host = host
        self._maintenance = TableMaintenance(host)
        self._share = host.world.share
        self._share.add_evictor(_evictor(weakref.ref(host)))
        host.periodic_work = self._maintenance.run_once
        host.when_dropped = self._discard

    def __repr__(self) -> str:
        return f"Table({self.name!r})"

    @property
    def name(self) -> str:
        return self._host.name

    @property
    def schema(self) -> Schema:
        """The newest version; version 0 before the first definition."""
        with self._host.reading() as fold:
            return fold.schema

    def define(
        self, fields: Mapping[str, object], *, version: int | None = None, new: bool = False
    ) -> Schema:
        """Define the fields of events: the first definition, or a compatible next version.

        ``version`` must be the resulting one. With ``new`` the table must not be defined yet.
        """
        checked = schema_evolution.check_fields(fields)
        result: list[Schema] = []

        def decide(fold: TableFold) -> ViewAppend | None:
            result[:] = [_next_version(self.name, fold.schema, checked, version, new=new)]
            return None if result[0] == fold.schema else control_records.schema_draft(result[0])

        self._host.decide(decide)
        topic = self._host.topics[0]
        if topic.config.schema != result[0].fields:
            topic.alter(schema=result[0].fields)
        return result[0]

    def store(self, context: str, event: Event) -> AppendResult:
        """Store one event of a context. A rejected event changes nothing."""
        return self.store_many([context], [event])

    def store_many(self, contexts: Sequence[str] | str, events: Sequence[Event]) -> AppendResult:
        """Store all events or none; one context for each, or one for all."""
        if isinstance(contexts, str):
            contexts = [contexts] * len(events)
        if len(contexts) != len(events):
            raise Invalid(f"{len(events)} events need as many contexts, not {len(contexts)}")
        if not events:
            raise Invalid("there is no event to store")
        keys = [check_context(context) for context in contexts]
        data = [_encoded(event) for event in events]
        self._validator().decode_many(data)
        self._reserve(sum(map(len, data)) + _ROW_RAM * len(data))
        return self._host.append(ViewAppend(0, data, keys=keys))

    def check(self, event: Event) -> None:
        """Raise the error that ``store`` would raise for this event."""
        self._validator().check(_encoded(event))

    def snapshot(self, as_of: int | None = None) -> PinnedTable:
        """The table as it is now, or its remaining rows up to a seq."""
        with self._host.reading() as fold:
            return fold.snapshot(as_of)

    def delete(self, where: Condition) -> int:
        """Delete the events that fulfil a bound condition, at once; return their number."""
        count = 0

        def decide(fold: TableFold) -> ViewAppend | None:
            nonlocal count
            count = len(seqs_matching(fold.snapshot(), where))
            return control_records.delete_draft(where) if count else None

        self._host.decide(decide)
        return count

    def flush(self) -> None:
        """Write the rows in memory to files now."""
        self._maintenance.flush()

    def compact(self) -> None:
        """Merge files now, until no merge is worthwhile."""
        self._maintenance.merge_all()

    def maintain(self) -> None:
        """Write files, merge, trim deleted records: called after every save of the views."""
        self._maintenance.run_once()

    def statistics(self) -> TableStats:
        """Counts and sizes of the table at this moment."""
        with self._host.reading() as fold:
            view = fold.snapshot()
            files = fold.segments.files
            hidden, misfits, memory_rows = len(fold.hidden), fold.misfits, fold.memory_rows
        return TableStats(
            rows=view.rows,
            memory_rows=memory_rows,
            files=len(files),
            file_bytes=sum(file.size for file in files),
            zones=sum(-(-file.rows // fold.config.zone_rows) for file in files),
            hidden=hidden,
            misfits=misfits,
            schema_version=view.schema.version,
            position=view.position,
        )

    def _discard(self) -> None:
        self._host.fold.discard()

    def _validator(self) -> Validator:
        schema = self.schema
        if not schema.version:
            raise Invalid(f"event {self.name!r} has no fields yet: DEFINE it first")
        return validator_of(schema, self.name)

    def _reserve(self, size: int) -> None:
        self._share.admit(size)
        self._maintenance.limit_passives(_PASSIVES_MAX)


def _next_version(
    name: str, schema: Schema, fields: dict[str, str], version: int | None, *, new: bool
) -> Schema:
    if new and schema.version:
        raise Invalid(f"event {name!r} is already defined, in version {schema.version}")
    changed = schema_evolution.check_change(schema, fields)
    if version is not None and version != changed.version:
        raise Invalid(
            f"event {name!r} would be defined in version {changed.version}, not {version}: pass "
            "that version, or none"
        )
    return changed


def check_context(context: str) -> bytes:
    """The key of a context, or an error if it is not a valid context."""
    if not isinstance(context, str) or not context:
        raise Invalid(f"a context is text and not empty, not {context!r}")
    if context.startswith("__system_"):
        raise Invalid(f"contexts that begin with __system_ are reserved: {context!r}")
    try:
        key = context.encode()
    except UnicodeEncodeError as error:
        raise Invalid(f"a context is text that can be encoded as UTF-8: {error}") from error
    if len(key) > _CONTEXT_MAX:
        raise Invalid(f"a context has at most {_CONTEXT_MAX} bytes, not {len(key)}")
    return key


def _encoded(event: Event) -> bytes:
    if isinstance(event, bytes):
        return event
    if isinstance(event, str):
        return event.encode()
    if isinstance(event, Mapping):
        try:
            return msgspec.json.encode(event)
        except (TypeError, ValueError) as error:
            raise Invalid(f"an event must be writable as JSON: {error}") from error
    raise Invalid(f"an event is a map or JSON text, not {type(event).__name__}")


def _evictor(host: weakref.ref[ViewRunner[TableFold]]) -> Callable[[int], int]:
    """Evicts when memory is short: the next run writes the memtable; nothing is freed yet."""

    def evict(size: int) -> int:
        del size
        runner = host()
        if runner is not None and runner.lock.acquire(blocking=False):
            try:
                runner.fold.make_passive()
            finally:
                runner.lock.release()
        return 0

    return evict
