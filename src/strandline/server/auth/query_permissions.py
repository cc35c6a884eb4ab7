"""The permissions that a command or a SELECT needs, found before anything runs.

For users of the command language ``query/access/permissions.py`` decides about commands, as in a
embedded store. For tokens, and on a server that is open, these actions are needed:

    QUERY, REPLAY, EXPLAIN, PLOT        read of every event it names
    REPLAY without an event             read of every event there is
    REMEMBER                            the same, and create of remembered:<alias>
    SHOW, FORGET                        read of the remembered query's events; FORGET also delete
                                        of remembered:<alias>
    STORE                               write
    DEFINE                              create and config
    DELETE                              delete
    FLUSH                               config of every event there is
    LIST USERS, SHOW PERMISSIONS        tokens
    CREATE USER, GRANT, REVOKE          everything there is
    PING                                nothing
    BATCH                               what its commands need

A relation of SQL needs read of its topic; ``remembered.x`` read of its query's events.
Names are resolved among those that the client may read, so that errors disclose no others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from strandline.errors import Forbidden, Invalid, NotFound, UnknownTopic
from strandline.log.topic.topic import Topic
from strandline.query.access.permissions import ADMIN, checked_roles
from strandline.query.language import ast
from strandline.query.language.ast import Command, Name
from strandline.query.language.errors import QueryError
from strandline.query.language.parser import parse
from strandline.query.materialized.materialized_queries import PREFIX
from strandline.query.sql.statement import RelationName, Statement
from strandline.security.internal_topics import allowed
from strandline.security.principal import Principal
from strandline.security.scopes import Action, Scopes
from strandline.server.auth.auth import Auth
from strandline.store import Store
from strandline.views.open_view import Views

_QUERIES = (
    ast.Query,
    ast.ReplayCommand,
    ast.Plot,
    ast.Explain,
    ast.Remember,
    ast.Show,
)


class TopicPermission(NamedTuple):
    """An action on a topic; without one, on the server."""

    action: Action
    topic: str = ""


EVERYTHING = TopicPermission("tokens", "*")
"""A principal that grants rights must have all: otherwise it could extend its own."""


class VisibleStore:
    """A store limited to the topics that a principal may read. Safe from many threads."""

    def __init__(self, store: Store, scopes: Scopes) -> None:
        self._store = store
        self._scopes = scopes
        self.id = store.id

    @property
    def views(self) -> Views:
        return self._store.views

    def sees(self, name: str) -> bool:
        return allowed(self._scopes, "read", name)

    def topics(self, prefix: str = "") -> list[str]:
        return [name for name in self._store.topics(prefix) if self.sees(name)]

    def existing_topic(self, name: str) -> Topic:
        if not self.sees(name):
            raise UnknownTopic(f"there is no topic {name!r}")
        return self._store.existing_topic(name)

    def needs_of_command(self, command: Command) -> Iterator[TopicPermission]:
        """The needs of a command."""
        match command:
            case ast.Ping():
                return
            case ast.Flush():
                for name in self._events():
                    yield TopicPermission("config", name)
            case ast.StoreEvent(event=event):
                yield TopicPermission("write", event.text)
            case ast.Define(event=event):
                yield TopicPermission("create", event.text)
                yield TopicPermission("config", event.text)
            case ast.DeleteEvents(event=event):
                yield TopicPermission("delete", event.text)
            case ast.Query() | ast.ReplayCommand() | ast.Plot():
                yield from self._reads(command)
            case ast.Explain(query=query):
                yield from self._reads(query)
            case ast.Remember(query=query, alias=alias):
                yield from self._reads(query)
                yield TopicPermission("create", PREFIX + alias)
            case ast.Show(alias=alias):
                yield from self.needs_of_alias(alias)
            case ast.Forget(alias=alias):
                yield from self.needs_of_alias(alias)
                yield TopicPermission("delete", PREFIX + alias)
            case ast.BatchCommand(commands=commands):
                for each in commands:
                    yield from self.needs_of_command(each)
            case ast.ListUsers() | ast.ShowPermissions():
                yield TopicPermission("tokens")
            case _:
                yield EVERYTHING

    def check_user(self, user: str, command: Command) -> None:
        """Forbidden, unless the user may run a command: the rules of an embedded store."""
        try:
            self._store.queries.users.check_allowed(user, command)
        except NotFound as error:
            raise NotFound("there is no remembered query of this name") from error

    def needs_of_alias(self, alias: str) -> Iterator[TopicPermission]:
        """The needs of a materialized query; NotFound for an unknown alias."""
        try:
            text = self._store.queries.remembered.describe(alias).query
        except NotFound as error:
            raise NotFound(f"there is no remembered query {alias!r}") from error
        query = parse(text)
        assert isinstance(query, ast.Query), "only queries are remembered"
        yield from self._reads(query)

    def needs_of_sql(self, statement: Statement) -> Iterator[TopicPermission]:
        """The needs of a SELECT."""
        readable = self.topics()
        for relation in statement.relations:
            if relation.schema.lower() == "remembered":
                yield from self.needs_of_alias(relation.name)
            else:
                yield TopicPermission("read", _topic_of(relation, readable))

    def without_names(self, error: QueryError) -> QueryError:
        """The error without a hint that names topics the client may not read."""
        hidden = (name for name in self._store.topics() if not self.sees(name))
        if not any(name in error.hint for name in hidden):
            return error
        hidden_hint = QueryError(error.message, error.text, error.at)
        hidden_hint.results = error.results
        return hidden_hint

    def _reads(self, query: ast.Query | ast.ReplayCommand | ast.Plot) -> Iterator[TopicPermission]:
        for name in self._event_names(query):
            yield TopicPermission("read", name)

    def _event_names(self, query: ast.Query | ast.ReplayCommand | ast.Plot) -> list[str]:
        names: list[Name | None] = []
        match query:
            case ast.Query(event=event, steps=steps):
                names = [event, *(step.event for step in steps)]
            case ast.ReplayCommand(event=None):
                return self._events_to_read()
            case ast.ReplayCommand(event=event):
                names = [event]
            case ast.Plot(metrics=metrics):
                names = [name for metric in metrics for name in (metric.event, metric.then)]
        return [name.text for name in names if name is not None]

    def _events_to_read(self) -> list[str]:
        every = self._events()
        if not all(map(self.sees, every)):
            raise Forbidden("you may not read every event: name one")
        return every

    def _events(self) -> list[str]:
        return self._store.queries.events()


def _topic_of(relation: RelationName, readable: list[str]) -> str:
    """The topic of a relation: a readable one, else the name as written."""
    name = relation.name.partition("/")[0]
    if name in readable:
        return name
    alike = [each for each in readable if each.lower() == name.lower()]
    return alike[0] if len(alike) == 1 else name


def check(auth: Auth, who: Principal, needs: Iterable[TopicPermission]) -> None:
    """Forbidden, unless all needs are allowed."""
    for need in needs:
        if need is EVERYTHING:
            auth.authorise_everything(who)
        else:
            auth.authorise(who, need.action, need.topic)


def check_first_user(command: Command) -> None:
    """Invalid, if this command would lock all clients out of an open server.

    A server with a user is not open. Unless its first user is an admin, no key and no token would
    have the right to create another.
    """
    commands = command.commands if isinstance(command, ast.BatchCommand) else (command,)
    first = next((each for each in commands if isinstance(each, ast.CreateUser)), None)
    if first is not None and ADMIN not in checked_roles(first.roles):
        raise Invalid(
            "the first user of a server without tokens must be an admin, or no client could "
            f"administer it any more: CREATE USER {first.user} WITH ROLES [admin], or create a "
            "token with scopes `all` first"
        )


def is_query(command: Command) -> bool:
    """Whether a command may run long: it reads events, or contains a command that does."""
    commands = command.commands if isinstance(command, ast.BatchCommand) else (command,)
    return any(isinstance(each, _QUERIES) for each in commands)


def is_write(command: Command) -> bool:
    """Whether a command appends events."""
    commands = command.commands if isinstance(command, ast.BatchCommand) else (command,)
    return any(isinstance(each, ast.StoreEvent) for each in commands)


def audit_fields(command: Command) -> Iterator[dict[str, object]]:
    """The audit fields of a command: its kind and names, never its text, which may have keys."""
    match command:
        case ast.BatchCommand(commands=commands):
            for each in commands:
                yield from audit_fields(each)
        case ast.Define(event=event) | ast.DeleteEvents(event=event):
            yield {"command": type(command).__name__, "names": [event.text]}
        case ast.CreateUser(user=user) | ast.RevokeKey(user=user):
            yield {"command": type(command).__name__, "user": user}
        case ast.Grant(user=user) | ast.Revoke(user=user):
            names = [name.text for name in command.events]
            permissions = list(command.permissions)
            fields = {"user": user, "names": names, "permissions": permissions}
            yield {"command": type(command).__name__, **fields}
        case ast.Remember(alias=alias) | ast.Forget(alias=alias):
            yield {"command": type(command).__name__, "names": [alias]}
        case _:
            return
