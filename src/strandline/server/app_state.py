"""The parts of a running server, passed to every request. Created in ``serve.py``; no logic."""

from __future__ import annotations

from strandline.log.topic.topic import Topic
from strandline.pipelines.schedule.scheduler import PipelineScheduler
from strandline.platform.clock import Clock
from strandline.query.sql.process_sandbox import QueryProcesses
from strandline.server.auth.auth import Auth
from strandline.server.commit_waiters import CommitWaiters
from strandline.server.counters import ServerCounters
from strandline.server.limits.byte_budget import ByteBudget
from strandline.server.limits.query_registry import QueryRegistry
from strandline.server.limits.storage_quota import StorageQuota
from strandline.server.live.hub import Hub
from strandline.server.settings import ServerSettings
from strandline.server.thread_pool import ThreadPools
from strandline.store import Store


class AppState:
    """The parts that handlers use. Owned by the loop's thread."""

    def __init__(
        self,
        *,
        store: Store,
        settings: ServerSettings,
        clock: Clock,
        bridge: ThreadPools,
        auth: Auth,
        budget: ByteBudget,
        hub: Hub,
        schedule: PipelineScheduler,
    ) -> None:
        self.store = store
        self.settings = settings
        self.clock = clock
        self.bridge = bridge
        self.auth = auth
        """Authentication and authorisation: ``authenticate``, ``authorise``."""
        self.budget = budget
        """The memory budget of requests."""
        self.hub = hub
        """Live delivery: streams, long polls and watch sessions."""
        self.schedule = schedule
        """Declared pipelines: ``server/routes/pipelines.py``."""
        self.draining = False
        """Whether the server is shutting down: streams end, requests get 503."""
        self.processes = QueryProcesses(
            memory_max=settings.limits.sql_memory_bytes_max,
            row_bytes_max=settings.limits.query_row_bytes_max,
        )
        """Processes that run SQL of clients."""
        self.queries = QueryRegistry(settings.limits)
        """The running queries, with their limits."""
        self.topic_handles: dict[str, Topic] = {}
        """Recently used topics: ``server/handlers/topic_cache.py``."""
        self.read_at_ms: dict[str, int] = {}
        """When topics were last read, in milliseconds: ``priority.py``."""
        self.started_s = clock.monotonic()
        """When the server started, on the monotonic clock."""
        self.counters = ServerCounters()
        """Counts since then: ``server/routes/prometheus.py``."""
        self.commit_waiters = CommitWaiters()
        """Waiters for appends to be durable."""
        self.storage_quota = StorageQuota(store, settings, clock, bridge)
        """The storage quota."""
