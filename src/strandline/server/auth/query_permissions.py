"""What a command or a SELECT needs to be allowed, found before anything runs.

For users of the command language ``query/access/permissions.py`` decides about commands, as in a
store that is embedded. For tokens, and on a server that is open, these actions are needed:

    QUERY, REPLAY, EXPLAIN, PLOT        read of every event it names
    REPLAY without an event             read of every event there is
    REMEMBER                            the same, and create of remembered:<alias>
    SHOW, FORGET                        read of the events of what is remembered; FORGET also delete
                                        of remembered:<alias>
    STORE                               write
    DEFINE                              create and config
    DELETE                              delete
    FLUSH                               config of every event there is
    LIST USERS, SHOW PERMISSIONS        tokens
    CREATE USER, GRANT, REVOKE          everything there is
    PING                                nothing
    BATCH                               what its commands need

A relation of SQL needs read of its topic; ``remembered.x`` read of the events that it was made of.
Names are looked for among those that one may read alone, so that no error tells another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from strandline.errors import Forbidden, Invalid, NotFound, UnknownTopic
from strandline.log.topic.topic import Topic
from strandline.query.access.permissions import ADMIN, checked_roles
from strandline.query.language import ast
from strandline.query.language.ast import Command, Name
from strandline.query.language.errors import Mistake
from strandline.query.language.parser import parse
from strandline.query.materialized.materialized_queries import PREFIX
from strandline.query.sql.statement import Named, Statement
from strandline.security.internal_topics import allowed
from strandline.security.principal import Principal
from strandline.security.scopes import Action, Scopes
from strandline.server.auth.auth import Auth
from strandline.store import Store
from strandline.views.open_view import Views

_QUERIES = (
    ast.Query,
    ast.Replay,
    ast.Plot,
    ast.Explain,
    ast.Remember,
    ast.Show,
)


class Needed(NamedTuple):
    """An action on a topic; without one, on the server."""

    action: Action
    topic: str = ""


EVERYTHING = Needed("tokens", "*")
"""Who gives rights to others must have them all: else he could give himself more."""


class Sight:
    """What one principal may read of a store: the rest is not there. Safe from many threads."""

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

    def needs_of_command(self, command: Command) -> Iterator[Needed]:
        """What a command needs."""
        match command:
            case ast.Ping():
                return
            case ast.Flush():
                for name in self._events():
                    yield Needed("config", name)
            case ast.StoreEvent(event=event):
                yield Needed("write", event.text)
            case ast.Define(event=event):
                yield Needed("create", event.text)
                yield Needed("config", event.text)
            case ast.DeleteEvents(event=event):
                yield Needed("delete", event.text)
            case ast.Query() | ast.Replay() | ast.Plot():
                yield from self._reads(command)
            case ast.Explain(query=query):
                yield from self._reads(query)
            case ast.Remember(query=query, alias=alias):
                yield from self._reads(query)
                yield Needed("create", PREFIX + alias)
            case ast.Show(alias=alias):
                yield from self.needs_of_alias(alias)
            case ast.Forget(alias=alias):
                yield from self.needs_of_alias(alias)
                yield Needed("delete", PREFIX + alias)
            case ast.Batch(commands=several):
                for each in several:
                    yield from self.needs_of_command(each)
            case ast.ListUsers() | ast.ShowPermissions():
                yield Needed("tokens")
            case _:
                yield EVERYTHING

    def check_user(self, user: str, command: Command) -> None:
        """Forbidden, unless the user may run a command: the rules of an embedded store."""
        try:
            self._store.questions.users.allows(user, command)
        except NotFound as error:
            raise NotFound("there is no remembered query of this name") from error

    def needs_of_alias(self, alias: str) -> Iterator[Needed]:
        """What is needed to see what is remembered. An alias that is not there is told plainly."""
        try:
            text = self._store.questions.remembered.describe(alias).query
        except NotFound as error:
            raise NotFound(f"there is no remembered query {alias!r}") from error
        query = parse(text)
        assert isinstance(query, ast.Query), "only queries are remembered"
        yield from self._reads(query)

    def needs_of_sql(self, statement: Statement) -> Iterator[Needed]:
        """What a SELECT needs."""
        seen = self.topics()
        for named in statement.relations:
            if named.schema.lower() == "remembered":
                yield from self.needs_of_alias(named.name)
            else:
                yield Needed("read", _found(named, seen))

    def without_names(self, error: Mistake) -> Mistake:
        """An error without a hint at what one may not read."""
        hidden = (name for name in self._store.topics() if not self.sees(name))
        if not any(name in error.hint for name in hidden):
            return error
        hidden_hint = Mistake(error.message, error.text, error.at)
        hidden_hint.results = error.results
        return hidden_hint

    def _reads(self, question: ast.Query | ast.Replay | ast.Plot) -> Iterator[Needed]:
        for name in self._named(question):
            yield Needed("read", name)

    def _named(self, question: ast.Query | ast.Replay | ast.Plot) -> list[str]:
        names: list[Name | None] = []
        match question:
            case ast.Query(event=event, steps=steps):
                names = [event, *(step.event for step in steps)]
            case ast.Replay(event=None):
                return self._events_to_read()
            case ast.Replay(event=event):
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
        return self._store.questions.events()


def _found(named: Named, seen: list[str]) -> str:
    """The topic that a relation is of: one that may be read, else what was written."""
    name = named.name.partition("/")[0]
    if name in seen:
        return name
    alike = [each for each in seen if each.lower() == name.lower()]
    return alike[0] if len(alike) == 1 else name


def check(auth: Auth, who: Principal, needs: Iterable[Needed]) -> None:
    """Forbidden, unless all of it is allowed."""
    for need in needs:
        if need is EVERYTHING:
            auth.authorise_everything(who)
        else:
            auth.authorise(who, need.action, need.topic)


def check_first_user(command: Command) -> None:
    """Invalid, if an open server would be closed to all by this command.

    With its first user a server is no longer open. Unless that user is an admin, no key and no
    token would then allow to make another.
    """
    several = command.commands if isinstance(command, ast.Batch) else (command,)
    first = next((each for each in several if isinstance(each, ast.CreateUser)), None)
    if first is not None and ADMIN not in checked_roles(first.roles):
        raise Invalid(
            "the first user of a server without tokens must be an admin, or nothing could be "
            f"administered any more: CREATE USER {first.user} WITH ROLES [admin], or create a "
            "token with scopes `all` first"
        )


def is_query(command: Command) -> bool:
    """Whether a command may run long: it reads events, or holds a command that does."""
    several = command.commands if isinstance(command, ast.Batch) else (command,)
    return any(isinstance(each, _QUERIES) for each in several)


def is_write(command: Command) -> bool:
    """Whether a command appends events."""
    several = command.commands if isinstance(command, ast.Batch) else (command,)
    return any(isinstance(each, ast.StoreEvent) for each in several)


def told_in_audit(command: Command) -> Iterator[dict[str, object]]:
    """What of a command is put on record: its kind and names, never its text, which may be keys."""
    match command:
        case ast.Batch(commands=several):
            for each in several:
                yield from told_in_audit(each)
        case ast.Define(event=event) | ast.DeleteEvents(event=event):
            yield {"command": type(command).__name__, "names": [event.text]}
        case ast.CreateUser(user=user) | ast.RevokeKey(user=user):
            yield {"command": type(command).__name__, "user": user}
        case ast.Grant(user=user) | ast.Revoke(user=user):
            names = [name.text for name in command.events]
            permissions = list(command.permissions)
            told = {"user": user, "names": names, "permissions": permissions}
            yield {"command": type(command).__name__, **told}
        case ast.Remember(alias=alias) | ast.Forget(alias=alias):
            yield {"command": type(command).__name__, "names": [alias]}
        case _:
            return
