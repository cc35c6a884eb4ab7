"""Runs commands on a store: parses them, checks them against its tables, and runs them.

A command is applied as a whole or rejected, except a batch: its commands are run one after the
other, and the first that fails ends it; the result, or the error, has the result of each command
that was run.

A query reads a snapshot of each of its tables, taken when it starts; a table that occurs twice is
read from one snapshot.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

import msgspec
import pyarrow as pa

from strandline.config.settings import QuerySettings
from strandline.errors import Invalid, StrandlineError
from strandline.log.topic.topic import Topic
from strandline.platform.clock import Clock
from strandline.query.access.users import Users
from strandline.query.execute.command_result import CommandResult
from strandline.query.execute.duckdb_engine import DuckDbEngine
from strandline.query.execute.executor import QueryExecutor, run
from strandline.query.execute.explain import explain_dict, explain_text
from strandline.query.execute.plot import chart
from strandline.query.execute.result import Result
from strandline.query.language import ast
from strandline.query.language.ast import Command, Name, Query
from strandline.query.language.binding import bind
from strandline.query.language.bound_ast import BoundQuery
from strandline.query.language.errors import QueryError, did_you_mean
from strandline.query.language.parser import parse
from strandline.query.language.periods import checked_calendar
from strandline.query.materialized.materialized_queries import MaterializedQueries
from strandline.query.materialized.result_log import FRAME_BYTES
from strandline.query.snapshots import QuerySnapshots, bind_to_snapshots
from strandline.query.sql.relations import relation
from strandline.query.sql.sandbox import SHARED
from strandline.query.sql.sql import SqlSandbox, read, relations, sql, stream
from strandline.query.sql.statement import RelationName, Statement
from strandline.schema import Schema
from strandline.views.kv.kv import Kv
from strandline.views.open_view import Views
from strandline.views.table.condition import Compare
from strandline.views.table.table import Table
from strandline.views.table.table_snapshot import PinnedTable

USERS = "strandline.users"
"""The key-value map with the users."""


class _QueryStore(Protocol):
    """The operations of a store that commands use."""

    id: str
    readonly: bool

    def topic(self, name: str, **options: object) -> Topic: ...

    def existing_topic(self, name: str) -> Topic: ...

    def delete_topic(self, name: str, *, if_empty: bool = False) -> bool: ...

    def topics(self, prefix: str = "") -> list[str]: ...

    def table(self, name: str, **options: object) -> Table: ...

    def kv(self, name: str, **options: object) -> Kv: ...

    @property
    def views(self) -> Views: ...


class QueryService:
    """The commands of one store. Safe from many threads."""

    def __init__(
        self,
        store: _QueryStore,
        clock: Clock,
        random_id: Callable[[], bytes],
        settings: QuerySettings,
        *,
        record_bytes_max: int,
    ) -> None:
        self._store = store
        self._clock = clock
        self._random_id = random_id
        self._calendar = checked_calendar(settings.timezone, settings.week_start)
        self._frame_bytes = min(record_bytes_max, FRAME_BYTES)
        self._engine = DuckDbEngine(clock, memory_max=settings.memory_bytes)
        self._execute: QueryExecutor = functools.partial(run, engine=self._engine)

    def with_executor(self, answering: QueryExecutor) -> QueryService:
        """The same commands with another executor of queries. Do not close the copy."""
        other = copy.copy(self)
        other._execute = answering
        vars(other).pop("remembered", None)
        return other

    @functools.cached_property
    def users(self) -> Users:
        """Users and their permissions."""
        # A key that was revoked must stay revoked after a power loss.
        is_new = not self._store.readonly and USERS not in self._store.topics(USERS)
        options = {"durability": "fsync"} if is_new else {}
        return Users(
            self._store.kv(USERS, **options),
            self._random_id,
            events=self.events,
            remembered=self._remembered_query,
        )

    @functools.cached_property
    def remembered(self) -> MaterializedQueries:
        """Materialized queries."""
        return MaterializedQueries(
            self._store,
            self._clock,
            snapshots=self._snapshot,
            bind=self._bind_text,
            engine=self._engine,
            answering=self._execute,
            frame_bytes=self._frame_bytes,
        )

    def events(self) -> list[str]:
        """Names of the events that are defined."""
        return [name for name in self._tables() if self._store.table(name).schema.version]

    def run(self, text: str, *, user: str | None = None) -> Result:
        """Run a command. A user needs its permissions; without a user every command is allowed."""
        command = parse(text)
        if user is not None:
            self.users.check_allowed(user, command)
        return self._run(command, text)

    def sql(
        self,
        text: str,
        *,
        as_of: object = None,
        params: Mapping[str, Any] | list[Any] | None = None,
        store: relation.SqlStore | None = None,
    ) -> Result:
        """Run a SELECT over the whole store, or over ``store``, a restricted part of it."""
        return sql(
            self._store if store is None else store,
            text,
            as_of=as_of,
            params=params,
            timezone=self._calendar.timezone,
            extra=self._remembered_relation,
        )

    def stream(
        self,
        text: str,
        *,
        as_of: object = None,
        params: Mapping[str, Any] | list[Any] | None = None,
        store: relation.SqlStore | None = None,
        notes: relation.Notes | None = None,
        copied: bool = True,
        sandbox: SqlSandbox = SHARED,
    ) -> AbstractContextManager[pa.RecordBatchReader]:
        """The same for large results: batches, computed as they are read. ``notes`` are complete
        when all batches are read. Without a copy of metrics it may raise ``Moved``."""
        return stream(
            self._store if store is None else store,
            text,
            as_of=as_of,
            params=params,
            timezone=self._calendar.timezone,
            extra=self._remembered_relation,
            notes=notes,
            copied=copied,
            sandbox=sandbox,
        )

    def relations(
        self, text: str, *, as_of: object = None
    ) -> tuple[Statement, dict[RelationName, relation.Relation]]:
        """The relations of a SELECT, all at one position: for engines outside of this process."""
        return relations(self._store, text, as_of=as_of, extra=self._remembered_relation)

    def statement(self, text: str, *, sandbox: SqlSandbox = SHARED) -> Statement:
        """Parse a SQL text without running it, for example to check permissions."""
        return read(text, sandbox)

    def close(self) -> None:
        self._engine.close()

    def _run(self, command: Command, text: str) -> Result:
        match command:
            case ast.Query() | ast.ReplayCommand():
                return self._query(command, text)
            case ast.Define() | ast.StoreEvent() | ast.DeleteEvents():
                return self._change(command, text)
            case ast.Remember() | ast.Show() | ast.Forget():
                return self._materialize(command)
            case ast.Explain(query):
                result = self._query(query, text)
                return CommandResult(explain_text(result), [_flat(explain_dict(result))])
            case ast.Plot():
                return self._plot(command, text)
            case ast.BatchCommand():
                return self._batch(command, text)
            case ast.Flush():
                for name in self._tables():
                    self._store.table(name).flush()
                return CommandResult("flushed")
            case ast.Ping():
                return CommandResult("PONG")
            case _:
                return self._administer(command)

    def _change(self, command: ast.Define | ast.StoreEvent | ast.DeleteEvents, text: str) -> Result:
        name = command.event.text
        match command:
            case ast.Define():
                schema = self._store.table(name).define(command.fields, version=command.version)
                return CommandResult(f"{name} is defined in version {schema.version}")
            case ast.StoreEvent():
                table = self._defined_table(command.event, text)
                appended = table.store(command.context, command.payload)
                return CommandResult("stored", [{"event": name, "seq": appended.first_seq}])
        where = self._bind(command, text).events[0].where
        everything = Compare("seq", ">=", 0)
        count = self._defined_table(command.event, text).delete(where or everything)
        return CommandResult(f"{count} event{'s' * (count != 1)} deleted", [{"deleted": count}])

    def _materialize(self, command: ast.Remember | ast.Show | ast.Forget) -> Result:
        match command:
            case ast.Remember():
                description = self.remembered.remember(command)
                return CommandResult(
                    f"remembered as {description.alias}",
                    [{"alias": description.alias, "rows": description.rows}],
                )
            case ast.Show(alias):
                return self.remembered.show(alias)
            case ast.Forget(alias):
                self.remembered.forget(alias)
                return CommandResult(f"{alias} is forgotten")

    def _plot(self, command: ast.Plot, text: str) -> Result:
        snapshots = QuerySnapshots(self._store)
        drawing = chart(
            command,
            snapshots.schema,
            lambda bound: self._execute(bound, snapshots.snapshot).arrow(),
            text,
            events=self._hints(),
            calendar=self._calendar,
        )
        points = [msgspec.to_builtins(point) for point in drawing.points]
        return CommandResult(f"{len(points)} points", points, chart=drawing)

    def _batch(self, batch: ast.BatchCommand, text: str) -> Result:
        results: list[Result] = []
        for command, own in zip(batch.commands, batch.texts, strict=True):
            try:
                results.append(self._run(command, text))
            except StrandlineError as error:
                error.results = tuple(results)
                error.add_note(f"{len(results)} commands of the batch were done before {own!r}")
                raise
        rows = [
            {"command": own, "message": result.message}
            for own, result in zip(batch.texts, results, strict=True)
        ]
        return CommandResult(f"{len(rows)} commands done", rows, results=results)

    def _administer(self, command: Command) -> Result:
        match command:
            case ast.CreateUser(user=user, key=key, roles=roles):
                created = self.users.create(user, key=key, roles=roles)
                row = {"user": created.id, "key": created.key}
                return CommandResult(
                    f"user {created.id} is created; the key is shown only once", [row]
                )
            case ast.RevokeKey(user):
                self.users.revoke_key(user)
                return CommandResult(f"the key of {user} is revoked")
            case ast.ListUsers():
                users = [msgspec.to_builtins(each) for each in self.users.list_users()]
                return CommandResult(f"{len(users)} users", [_flat(each) for each in users])
            case ast.Grant():
                names = [name.text for name in command.events]
                self.users.grant(command.user, command.permissions, names)
                return CommandResult(f"granted to {command.user}")
            case ast.Revoke():
                names = [name.text for name in command.events]
                self.users.revoke(command.user, command.permissions, names)
                return CommandResult(f"revoked from {command.user}")
            case ast.ShowPermissions(user):
                shown = msgspec.to_builtins(self.users.user(user))
                return CommandResult(f"permissions of {user}", [_flat(shown)])
        raise Invalid(f"{type(command).__name__} cannot be run here")

    def _query(self, command: ast.Query | ast.ReplayCommand, text: str) -> Result:
        bound, snapshots = bind_to_snapshots(
            self._store, lambda schemas: self._bind_with(command, text, schemas)
        )
        return self._execute(bound, snapshots.snapshot)

    def _bind(
        self, command: ast.Query | ast.ReplayCommand | ast.DeleteEvents, text: str
    ) -> BoundQuery:
        return self._bind_with(command, text, self._schema)

    def _bind_with(
        self,
        command: ast.Query | ast.ReplayCommand | ast.DeleteEvents,
        text: str,
        schemas: Callable[[str], Schema | None],
    ) -> BoundQuery:
        return bind(command, schemas, text, events=self._hints(), calendar=self._calendar)

    def _bind_text(self, text: str) -> BoundQuery:
        command = parse(text)
        if not isinstance(command, Query):
            raise Invalid(f"only a QUERY can be remembered: {text}")
        return self._bind(command, text)

    def _hints(self) -> Collection[str]:
        return _Events(self.events)

    def _defined_table(self, event: Name, text: str) -> Table:
        if self._schema(event.text) is None:
            hint = did_you_mean(event.text, self.events())
            raise QueryError(
                f"unknown event {event.text!r}: DEFINE it first", text, event.at, hint=hint
            )
        return self._store.table(event.text)

    def _schema(self, event: str) -> Schema | None:
        return QuerySnapshots(self._store).schema(event)

    def _snapshot(self, event: str) -> PinnedTable:
        return self._store.table(event).snapshot()

    def _tables(self) -> list[str]:
        return [name for kind, name in self._store.views.names() if kind == "table"]

    def _remembered_query(self, alias: str) -> Query | None:
        command = parse(self.remembered.describe(alias).query)
        return command if isinstance(command, Query) else None

    def _remembered_relation(self, schema: str, name: str) -> pa.Table | None:
        if schema != "remembered":
            return None
        return self.remembered.show(name).arrow()


class _Events(Collection[str]):
    """Names that are listed only when they are needed: there may be many topics."""

    def __init__(self, find: Callable[[], list[str]]) -> None:
        self._find = find

    def __iter__(self) -> Iterator[str]:
        return iter(self._find())

    def __len__(self) -> int:
        return len(self._find())

    def __contains__(self, name: object) -> bool:
        return name in self._find()


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """A row with nested values as JSON text: a field of a result has one value."""
    return {
        name: msgspec.json.encode(value).decode() if isinstance(value, dict | list) else value
        for name, value in row.items()
    }
