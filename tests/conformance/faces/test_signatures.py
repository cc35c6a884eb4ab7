"""Promise: no public verb or parameter of an open store is missing from its clients.

What a client does not have is listed below, each with the reason. The list is checked, too: what
is in it and not missing is a mistake.
"""

from __future__ import annotations

import inspect
import re

import pytest

from strandline.client.asynchronous import groups as async_groups
from strandline.client.asynchronous.dead_letters import AsyncDeadLetters
from strandline.client.asynchronous.kv import AsyncKv
from strandline.client.asynchronous.metrics import AsyncMetrics
from strandline.client.asynchronous.queue import AsyncJob, AsyncQueue
from strandline.client.asynchronous.routers import AsyncRouters
from strandline.client.asynchronous.series import AsyncSeries
from strandline.client.asynchronous.store import AsyncStore
from strandline.client.asynchronous.table import AsyncTable
from strandline.client.asynchronous.topic import AsyncTopic
from strandline.client.asynchronous.transaction import AsyncTransaction
from strandline.client.asynchronous.views import AsyncViews
from strandline.client.blocking import groups as blocking_groups
from strandline.client.blocking.dead_letters import RemoteDeadLetters
from strandline.client.blocking.kv import RemoteKv
from strandline.client.blocking.metrics import RemoteMetrics
from strandline.client.blocking.queue import RemoteJob, RemoteQueue
from strandline.client.blocking.routers import RemoteRouters
from strandline.client.blocking.series import RemoteSeries
from strandline.client.blocking.store import RemoteStore
from strandline.client.blocking.table import RemoteTable
from strandline.client.blocking.topic import RemoteTopic
from strandline.client.blocking.transaction import RemoteTransaction
from strandline.client.blocking.views import RemoteViews
from strandline.log.topic.topic import Topic
from strandline.routers.routers import Routers
from strandline.store import Store
from strandline.views.groups.consumer_group import Group
from strandline.views.groups.group_registry import GroupRegistry
from strandline.views.groups.member import Delivery, Member
from strandline.views.kv.kv import Kv
from strandline.views.kv.transaction import Transaction
from strandline.views.metrics.metrics import Metrics
from strandline.views.open_view import Views
from strandline.views.queue.dead_letters import DeadLetters
from strandline.views.queue.job import Job
from strandline.views.queue.queue import Queue
from strandline.views.series.series import Series
from strandline.views.table.table import Table

FACES = [
    (Store, RemoteStore, AsyncStore),
    (Topic, RemoteTopic, AsyncTopic),
    (Kv, RemoteKv, AsyncKv),
    (Transaction, RemoteTransaction, AsyncTransaction),
    (Queue, RemoteQueue, AsyncQueue),
    (Job, RemoteJob, AsyncJob),
    (DeadLetters, RemoteDeadLetters, AsyncDeadLetters),
    (Series, RemoteSeries, AsyncSeries),
    (Metrics, RemoteMetrics, AsyncMetrics),
    (GroupRegistry, blocking_groups.RemoteGroups, async_groups.AsyncGroups),
    (Group, blocking_groups.RemoteGroup, async_groups.AsyncGroup),
    (Member, blocking_groups.RemoteMember, async_groups.AsyncMember),
    (Delivery, blocking_groups.RemoteDelivery, async_groups.AsyncDelivery),
    (Table, RemoteTable, AsyncTable),
    (Views, RemoteViews, AsyncViews),
    (Routers, RemoteRouters, AsyncRouters),
]

OPERATING = "work of who operates the store, where the store is: the command line does it"
INSIDE = "for the store's own parts, views and server"
PLACING = "places without waiting: over a network that is a task or a thread of the caller"

MISSING = {
    Store: {
        **dict.fromkeys(["checkpoint", "relocate", "sweep", "scrub", "backup"], OPERATING),
        **dict.fromkeys(["ingest_pending", "sync", "refresh", "lake_objects"], OPERATING),
        **dict.fromkeys(
            ["has_topic", "forked", "queries", "notify_next_topic", "topic_count"], INSIDE
        ),
        **dict.fromkeys(
            ["committers", "log_statistics", "newer_topics", "quarantined_files", "totals"], INSIDE
        ),
    },
    Topic: {
        "append_nowait": PLACING,
        **dict.fromkeys(["place_many", "place_arrow", "wait_published", "sync", "trim"], INSIDE),
        **dict.fromkeys(
            ["check_arrow", "estimate", "snapshot", "scan", "enforce_retention"], INSIDE
        ),
        **dict.fromkeys(
            ["is_gone", "is_local", "is_in_tail", "read_unlocked", "notify_next"], INSIDE
        ),
        "earliest_seq": "statistics() has it",
        **dict.fromkeys(["is_quick", "place_batch", "read_stored", "attach_queue"], INSIDE),
    },
    Kv: dict.fromkeys(["maintain", "commit", "watcher"], INSIDE),
    Queue: dict.fromkeys(["maintain", "subscribe", "due_s", "held", "still_leased"], INSIDE),
    DeadLetters: {"bury": INSIDE, "finish": INSIDE},
    Series: {"maintain": INSIDE, "wait_for_pending": INSIDE},
    Metrics: {"maintain": INSIDE, "accept": INSIDE},
    Table: {"maintain": INSIDE},
    Views: dict.fromkeys(
        ["check_dead_letter_topic", "companions", "spec", "saved_position"], INSIDE
    ),
    GroupRegistry: dict.fromkeys(["close", "find", "find_stored"], INSIDE),
    Group: {
        **dict.fromkeys(["read", "ack", "nack", "extend", "leave"], "its members have these verbs"),
        "close": "ends the group for everybody: delete it",
        **dict.fromkeys(["subscribe", "due_s", "generation", "is_finished"], INSIDE),
    },
    Routers: dict.fromkeys(
        ["close", "problems", "count", "delete_of_topic", "load", "run_job", "run_once", "save"],
        INSIDE,
    ),
}
"""Verbs that clients do not have, and why."""


def _public(face: type) -> dict[str, object]:
    found: dict[str, object] = {}
    for each in reversed(face.__mro__[:-1]):
        found |= {
            name: value
            for name, value in vars(each).items()
            if not name.startswith("_")
            if callable(value) or isinstance(value, property) or hasattr(value, "attrname")
        }
    return found


def _parameters(verb: object) -> list[tuple[str, object, object]]:
    signature = inspect.signature(verb)  # type: ignore[arg-type]  # a function
    return [(each.name, each.kind, each.default) for each in signature.parameters.values()]


@pytest.mark.parametrize("faces", FACES, ids=lambda faces: faces[0].__name__)
def test_a_client_has_every_verb(faces):
    here, *clients = faces
    excused = MISSING.get(here, {})

    for client in clients:
        missing = [name for name in _public(here) if not _has(client, name)]
        assert sorted(missing) == sorted(excused)


@pytest.mark.parametrize("faces", FACES, ids=lambda faces: faces[0].__name__)
def test_a_verb_has_every_parameter_with_its_default(faces):
    here, *clients = faces

    for client in clients:
        other = {
            name: (_parameters(verb), _parameters(getattr(client, name)))
            for name, verb in _public(here).items()
            if inspect.isfunction(verb) and inspect.isfunction(getattr(client, name, None))
        }
        assert {name: pair for name, pair in other.items() if pair[0] != pair[1]} == {}


@pytest.mark.parametrize("faces", FACES, ids=lambda faces: faces[0].__name__)
def test_both_clients_have_the_same_verbs(faces):
    _, blocking, asynchronous = faces

    assert sorted(_public(blocking)) == sorted(_public(asynchronous))


def _has(client: type, name: str) -> bool:
    return hasattr(client, name) or name in _attributes(client)


def _attributes(client: type) -> set[str]:
    """What its constructor sets."""
    return set(re.findall(r"self\.(\w+) =", inspect.getsource(client.__init__)))
