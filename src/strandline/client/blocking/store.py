# Made from asynchronous/store.py by tests/house/blocking.py: change that one.
"""The store of a server, with the methods of an embedded one.

    with strandline.connect("http://127.0.0.1:4000", token="…") as store:
        store.topic("orders").append(b"…")

    async with strandline.connect_async("http://127.0.0.1:4000", token="…") as store:
        await (await store.topic("orders")).append(b"…")

Nothing is sent before the first method call.
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
from strandline.client.blocking.endpoint import RemoteEndpoint
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
from strandline.client.name_validation import check_possible_name, is_possible_name
from strandline.client.query_codec import encode_as_of, encode_params, result_of
from strandline.client.request import ARROW, Request
from strandline.client.settings import ClientSettings
from strandline.config.settings import TopicConfig, topic_config
from strandline.errors import Forbidden, Invalid, UnknownTopic
from strandline.log.health import Health
from strandline.platform.clock import Clock, SystemClock
from strandline.query.execute.result import Result
from strandline.records import check_topic_name

_PAGE_SIZE = 1000


class RemoteStore:
    """The store of a server. Safe from many threads; use it as a context manager."""

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
        self._endpoint = RemoteEndpoint(self._connection)

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
        """The URL of the server."""
        return self._connection.address.shown

    @property
    def id(self) -> str:
        """The identity of the store in hex: the same for every opening."""
        return (self._endpoint.get("store", StoreHealth)).store_id

    def topic(self, name: str, **options: object) -> RemoteTopic:
        """The topic of this name, created with these options if it is absent."""
        check_topic_name(name)
        if not options:
            try:
                return self.existing_topic(name)
            except UnknownTopic:
                pass
            except Forbidden:  # a token that may only append: later reads are rejected
                return RemoteTopic(self._connection, name)
        return self._put(name, options, condition="same")

    def create_topic(self, name: str, **options: object) -> RemoteTopic:
        """Create a topic; TopicExists if there is one of this name."""
        check_topic_name(name)
        return self._put(name, options, condition="absent")

    def existing_topic(self, name: str) -> RemoteTopic:
        """The topic of this name; UnknownTopic if it is absent."""
        check_possible_name(name)
        state = self._endpoint.below("topics", name).get("", wire.TopicInfo)
        return RemoteTopic(self._connection, name, state.config.idempotency_window_ms)

    def delete_topic(self, name: str, *, if_empty: bool = False) -> bool:
        """Delete a topic with all its records; False if it is absent."""
        query = {"if_empty": "true"} if if_empty else {}
        if not is_possible_name(name):
            return False
        endpoint = self._endpoint.below("topics", name)
        return (endpoint.delete("", wire.DeleteTopicResponse, query)).deleted

    def topics(self, prefix: str = "") -> list[str]:
        """Names of the topics, sorted."""
        if not isinstance(prefix, str):
            raise Invalid(f"prefix is text, not {type(prefix).__name__}")
        names: list[str] = []
        query = {"prefix": prefix, "page_size": str(_PAGE_SIZE)}
        while True:
            page = self._endpoint.get("topics", wire.TopicList, query)
            names += [line.topic for line in page.topics]
            if not isinstance(page.next_cursor, str):
                return names
            query["cursor"] = page.next_cursor

    def kv(self, name: str, **options: object) -> RemoteKv:
        """The key-value view of a topic, created with these options if it is absent."""
        self._open("kv", name, options)
        return RemoteKv(self._endpoint.below("kv", name), name)

    def queue(self, name: str, **options: object) -> RemoteQueue:
        """The work queue whose jobs are the records of a topic, created if it is absent."""
        self._open("queue", name, options)
        return RemoteQueue(
            self._endpoint.below("queues", name), self._endpoint.below("topics", name), name
        )

    def series(self, name: str, **options: object) -> RemoteSeries:
        """The records of a topic by source and time, created if the view is absent."""
        self._open("series", name, options)
        return RemoteSeries(self._endpoint.below("series", name), name)

    def metrics(self, name: str, **options: object) -> RemoteMetrics:
        """The metrics view of a topic, created if it is absent."""
        self._open("metrics", name, options)
        return RemoteMetrics(self._endpoint.below("measurements", name), name)

    def table(self, name: str, **options: object) -> RemoteTable:
        """The records of a topic as an event table, created with these options if it is absent."""
        self._open("table", name, options)
        return RemoteTable(self._endpoint.below("tables", name), name)

    def group(self, topic: str, name: str, **options: object) -> RemoteGroup:
        """The consumer group of this name on a topic, created with these options if absent."""
        return self.groups.open(topic, name, options)

    @cached_property
    def groups(self) -> RemoteGroups:
        """The consumer groups of all topics."""
        return RemoteGroups(self._endpoint)

    @cached_property
    def views(self) -> RemoteViews:
        """All views: their names, options and digests."""
        return RemoteViews(self._endpoint)

    @cached_property
    def routers(self) -> RemoteRouters:
        """The routers, which forward records from topic to topic."""
        return RemoteRouters(self._endpoint)

    @cached_property
    def pipelines(self) -> RemotePipelines:
        """The declared pipelines of the server: docs/guide/pipelines.md."""
        return RemotePipelines(self._endpoint)

    @cached_property
    def tokens(self) -> RemoteTokens:
        """The tokens of the server."""
        return RemoteTokens(self._endpoint)

    def rebuild(self, kind: str, name: str) -> None:
        """Delete the state of a view and compute it again from the log."""
        self.views.rebuild(kind, name)

    def run(self, command: str) -> Result:
        """Execute a command: docs/guide/queries.md."""
        body = msgspec.json.encode(results.CommandRequest(command=command))
        return result_of(
            self._endpoint.request(Request("POST", "/v0/command", body=body, accept=ARROW))
        )

    def sql(
        self,
        text: str,
        *,
        as_of: object = None,
        params: Mapping[str, Any] | list[Any] | None = None,
    ) -> Result:
        """Run a SELECT over topics, views and tables, all at one position: docs/guide/sql.md."""
        query = results.SqlRequest(
            sql=text, params=encode_params(params), as_of=encode_as_of(as_of)
        )
        body = msgspec.json.encode(query)
        request = Request("POST", "/v0/sql", body=body, accept=ARROW, safe=True)
        return result_of(self._endpoint.request(request))

    def health(self) -> Health:
        """The current health of the store."""
        fields = msgspec.to_builtins(self._endpoint.get("store", StoreHealth))
        return msgspec.convert(fields, Health)

    def close(self) -> None:
        """Close the connections. Closing twice is fine."""
        self._connection.close()

    def _open(self, kind: str, name: str, options: dict[str, object]) -> None:
        try:
            self.views.open(kind, name, options)
        except Forbidden:
            if options:
                raise
            # A token that may not create a view may use an existing one; if the view is absent,
            # its methods raise.

    def _put(self, name: str, options: dict[str, object], *, condition: str) -> RemoteTopic:
        topic_config(TopicConfig(), options)  # raises Invalid for wrong options
        body = msgspec.json.encode(options)
        path = self._endpoint.below("topics", name).path
        request = Request("PUT", path, {"if": condition}, body, safe=condition == "same")
        response = (self._connection.request(request)).decode(wire.PutTopicResponse)
        return RemoteTopic(self._connection, name, response.config.idempotency_window_ms)
