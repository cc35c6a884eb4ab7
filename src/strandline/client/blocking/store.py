# Made from asynchronous/store.py by tests/house/blocking.py: change that one.
"""A store that a server has, with the verbs of one that is open here.

    with strandline.connect("http://127.0.0.1:4000", token="…") as store:
        store.topic("orders").append(b"…")

    async with strandline.connect_async("http://127.0.0.1:4000", token="…") as store:
        await (await store.topic("orders")).append(b"…")

Nothing is sent before the first verb.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from functools import cached_property
from typing import Any, NoReturn

import msgspec

from strandline.api import results
from strandline.api import topics as wire
from strandline.api.health import StoreHealth
from strandline.client.address import address_of
from strandline.client.blocking.connection import RemoteConnection
from strandline.client.blocking.endpoint import RemoteRoute
from strandline.client.blocking.groups import RemoteGroup, RemoteGroups
from strandline.client.blocking.kv import RemoteKv
from strandline.client.blocking.metrics import RemoteMetrics
from strandline.client.blocking.pipelines import RemotePipelines
from strandline.client.blocking.queue import RemoteQueue
from strandline.client.blocking.routers import RemoteRouters
from strandline.client.blocking.series import RemoteSeries
from strandline.client.blocking.table import RemoteTable
from strandline.client.blocking.tokens import RemoteTokens
from strandline.client.blocking.topic import RemoteTopic
from strandline.client.blocking.views import RemoteViews
from strandline.client.credentials import checked_token, trust_of
from strandline.client.name_validation import can_be, known
from strandline.client.query_codec import as_of_told, params_told, result_of
from strandline.client.request import ARROW, Ask
from strandline.client.settings import ClientSettings
from strandline.config.settings import TopicConfig, topic_config
from strandline.errors import Forbidden, Invalid, UnknownTopic
from strandline.log.health import Health
from strandline.platform.clock import Clock, SystemClock
from strandline.query.execute.result import Result
from strandline.records import check_topic_name

_PAGE_SIZE = 1000


class RemoteStore:
    """A store behind a server. Safe from many threads; use it as a context manager."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        verify: ssl.SSLContext | str | bool = True,
        settings: ClientSettings | None = None,
        clock: Clock | None = None,
    ) -> None:
        """``verify`` is a file of certificates that are trusted, or a context; False trusts all."""
        self._connection = RemoteConnection(
            address_of(url),
            token=checked_token(token),
            verify=trust_of(verify=verify),
            settings=settings or ClientSettings(),
            clock=clock or SystemClock(),
        )
        self._at = RemoteRoute(self._connection)

    def __enter__(self) -> RemoteStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a connection cannot be pickled: send the URL, and connect there")

    def __repr__(self) -> str:
        return f"RemoteStore({self.url!r})"

    @property
    def url(self) -> str:
        """Where the server is."""
        return self._connection.address.shown

    @property
    def id(self) -> str:
        """Which store this is, in hex: the same for every opening."""
        return (self._at.get("store", StoreHealth)).store_id

    def topic(self, name: str, **options: object) -> RemoteTopic:
        """The topic of this name, made with these options if there is none."""
        check_topic_name(name)
        if not options:
            try:
                return self.existing_topic(name)
            except UnknownTopic:
                pass
            except Forbidden:  # who may only append is told so when he tries more
                return RemoteTopic(self._connection, name)
        return self._put(name, options, given="same")

    def create_topic(self, name: str, **options: object) -> RemoteTopic:
        """A new topic; TopicExists when the name is taken."""
        check_topic_name(name)
        return self._put(name, options, given="absent")

    def existing_topic(self, name: str) -> RemoteTopic:
        """The topic of this name; UnknownTopic when there is none."""
        known(name)
        state = self._at.below("topics", name).get("", wire.TopicState)
        return RemoteTopic(self._connection, name, state.config.idempotency_window_ms)

    def delete_topic(self, name: str, *, if_empty: bool = False) -> bool:
        """Delete a topic with all its records; False when there is none."""
        query = {"if_empty": "true"} if if_empty else {}
        if not can_be(name):
            return False
        at = self._at.below("topics", name)
        return (at.drop("", wire.TopicDeleted, query)).deleted

    def topics(self, prefix: str = "") -> list[str]:
        """Names of the topics, sorted."""
        if not isinstance(prefix, str):
            raise Invalid(f"prefix is text, not {type(prefix).__name__}")
        names: list[str] = []
        query = {"prefix": prefix, "page_size": str(_PAGE_SIZE)}
        while True:
            page = self._at.get("topics", wire.TopicList, query)
            names += [line.topic for line in page.topics]
            if not isinstance(page.next_cursor, str):
                return names
            query["cursor"] = page.next_cursor

    def kv(self, name: str, **options: object) -> RemoteKv:
        """The key-value map over a topic's keys, made with these options if there is none."""
        self._open("kv", name, options)
        return RemoteKv(self._at.below("kv", name), name)

    def queue(self, name: str, **options: object) -> RemoteQueue:
        """The work queue whose jobs are a topic's records, made if there is none."""
        self._open("queue", name, options)
        return RemoteQueue(self._at.below("queues", name), self._at.below("topics", name), name)

    def series(self, name: str, **options: object) -> RemoteSeries:
        """A topic's records by source and time, made if there is none."""
        self._open("series", name, options)
        return RemoteSeries(self._at.below("series", name), name)

    def metrics(self, name: str, **options: object) -> RemoteMetrics:
        """Measurements with tags and numeric fields, in a topic, made if there is none."""
        self._open("metrics", name, options)
        return RemoteMetrics(self._at.below("measurements", name), name)

    def table(self, name: str, **options: object) -> RemoteTable:
        """A topic's records as an event table, made with these options if there is none."""
        self._open("table", name, options)
        return RemoteTable(self._at.below("tables", name), name)

    def group(self, topic: str, name: str, **options: object) -> RemoteGroup:
        """The consumer group of this name on a topic, made with these options."""
        return self.groups.open(topic, name, options)

    @cached_property
    def groups(self) -> RemoteGroups:
        """The consumer groups of all topics."""
        return RemoteGroups(self._at)

    @cached_property
    def views(self) -> RemoteViews:
        """All views: their names, options and digests."""
        return RemoteViews(self._at)

    @cached_property
    def routers(self) -> RemoteRouters:
        """What forwards records from topic to topic."""
        return RemoteRouters(self._at)

    @cached_property
    def pipelines(self) -> RemotePipelines:
        """What the server runs when it is due: docs/guide/pipelines.md."""
        return RemotePipelines(self._at)

    @cached_property
    def tokens(self) -> RemoteTokens:
        """Who may do what at this server."""
        return RemoteTokens(self._at)

    def rebuild(self, kind: str, name: str) -> None:
        """Throw the state of a view away and fold the log again."""
        self.views.rebuild(kind, name)

    def run(self, command: str) -> Result:
        """Do what a command says: docs/guide/queries.md."""
        body = msgspec.json.encode(results.Command(command=command))
        return result_of(self._at.ask(Ask("POST", "/v0/command", body=body, accept=ARROW)))

    def sql(
        self,
        text: str,
        *,
        as_of: object = None,
        params: Mapping[str, Any] | list[Any] | None = None,
    ) -> Result:
        """Ask a SELECT over topics, views and tables, all at one moment: docs/guide/sql.md."""
        asked = results.Sql(sql=text, params=params_told(params), as_of=as_of_told(as_of))
        body = msgspec.json.encode(asked)
        ask = Ask("POST", "/v0/sql", body=body, accept=ARROW, safe=True)
        return result_of(self._at.ask(ask))

    def health(self) -> Health:
        """How the store is doing, at this moment."""
        told = msgspec.to_builtins(self._at.get("store", StoreHealth))
        return msgspec.convert(told, Health)

    def close(self) -> None:
        """Close the connections. Closing twice is fine."""
        self._connection.close()

    def _open(self, kind: str, name: str, options: dict[str, object]) -> None:
        try:
            self.views.open(kind, name, options)
        except Forbidden:
            if options:
                raise
            # Who may not make one may use what is there: its verbs say if it is not.

    def _put(self, name: str, options: dict[str, object], *, given: str) -> RemoteTopic:
        topic_config(TopicConfig(), options)  # it says what is wrong
        body = msgspec.json.encode(options)
        path = self._at.below("topics", name).path
        ask = Ask("PUT", path, {"if": given}, body, safe=given == "same")
        told = (self._connection.ask(ask)).told(wire.PutAnswer)
        return RemoteTopic(self._connection, name, told.config.idempotency_window_ms)
