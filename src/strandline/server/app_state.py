"""The parts of a running server, handed to every request. Wired in ``serve.py``; no rules."""

from __future__ import annotations

from strandline.log.topic.topic import Topic
from strandline.pipelines.schedule.scheduler import Schedule
from strandline.platform.clock import Clock
from strandline.query.sql.process_sandbox import QueryProcesses
from strandline.server.auth.auth import Auth
from strandline.server.commit_waiters import Durable
from strandline.server.counters import Counters
from strandline.server.limits.byte_budget import ByteBudget
from strandline.server.limits.query_registry import QueryRegistry
from strandline.server.limits.storage_quota import Fullness
from strandline.server.live.hub import Hub
from strandline.server.settings import ServerSettings
from strandline.server.thread_pool import Bridge
from strandline.store import Store


class Parts:
    """What requests are answered with. Owned by the loop's thread."""

    def __init__(
        self,
        *,
        store: Store,
        settings: ServerSettings,
        clock: Clock,
        bridge: Bridge,
        auth: Auth,
        budget: ByteBudget,
        hub: Hub,
        schedule: Schedule,
    ) -> None:
        self.store = store
        self.settings = settings
        self.clock = clock
        self.bridge = bridge
        self.auth = auth
        """Who asks, and whether he may: ``authenticate``, ``authorise``."""
        self.budget = budget
        """The memory that requests may hold."""
        self.hub = hub
        """Live delivery: who waits for which topic."""
        self.schedule = schedule
        """Declared pipelines: ``server/routes/pipelines.py``."""
        self.draining = False
        """Whether the server is going down: streams end, requests get 503."""
        self.processes = QueryProcesses(
            memory_max=settings.limits.sql_memory_bytes_max,
            row_bytes_max=settings.limits.query_row_bytes_max,
        )
        """Processes that run SQL of clients."""
        self.queries = QueryRegistry(settings.limits)
        """Queries that run: how many, and what ends them."""
        self.handles: dict[str, Topic] = {}
        """Topics that were asked for lately: ``server/handlers/topic_cache.py``."""
        self.read_at_ms: dict[str, int] = {}
        """When topics were last read by somebody, in milliseconds: ``priority.py``."""
        self.began_s = clock.monotonic()
        """When the server began, on the monotonic clock."""
        self.counters = Counters()
        """What was done since then: ``server/routes/prometheus.py``."""
        self.durable = Durable()
        """Who waits for appends to be durable."""
        self.fullness = Fullness(store, settings, clock, bridge)
        """Whether there is room for more records."""
