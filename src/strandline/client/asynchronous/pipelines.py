"""Lists and runs the declared pipelines of a server, and reads the history of runs."""

from __future__ import annotations

import builtins

from strandline.api import pipelines as wire
from strandline.client.asynchronous.endpoint import AsyncEndpoint


class AsyncPipelines:
    """The declared pipelines of a server. Safe from many tasks of one loop."""

    def __init__(self, endpoint: AsyncEndpoint) -> None:
        self._endpoint = endpoint.below("pipelines")

    async def list(self) -> builtins.list[wire.ScheduledPipeline]:
        """The declared pipelines in order of their names, with their last and next runs."""
        return (await self._endpoint.get("", wire.PipelineList)).pipelines

    async def runs(
        self, name: str | None = None, *, limit: int = 100, before: int | None = None
    ) -> builtins.list[wire.RunLine]:
        """Ended runs, newest first: of one declared pipeline, before a seq of the history."""
        query = {"limit": str(limit)}
        query |= {} if name is None else {"name": name}
        query |= {} if before is None else {"before": str(before)}
        return (await self._endpoint.get("runs", wire.RunList, query)).runs

    async def start(self, name: str) -> wire.PipelineRun:
        """Run a declared pipeline now; NotFound if it is not declared, Conflict if it runs."""
        return (await self._endpoint.below(name).post("run", None, wire.StartRunResponse)).run
