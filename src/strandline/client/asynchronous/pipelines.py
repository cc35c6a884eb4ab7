"""The declared pipelines of a server: listed, run, and what has run."""

from __future__ import annotations

import builtins

from strandline.api import pipelines as wire
from strandline.client.asynchronous.endpoint import AsyncRoute


class AsyncPipelines:
    """What a server runs when it is due. Safe from many tasks of one loop."""

    def __init__(self, at: AsyncRoute) -> None:
        self._at = at.below("pipelines")

    async def list(self) -> builtins.list[wire.Scheduled]:
        """The declared pipelines in order of their names, with their last and next runs."""
        return (await self._at.get("", wire.PipelineList)).pipelines

    async def runs(
        self, name: str | None = None, *, limit: int = 100, before: int | None = None
    ) -> builtins.list[wire.RunLine]:
        """Runs that have ended, the newest first: of a declaration, before a seq of the history."""
        query = {"limit": str(limit)}
        query |= {} if name is None else {"name": name}
        query |= {} if before is None else {"before": str(before)}
        return (await self._at.get("runs", wire.RunList, query)).runs

    async def start(self, name: str) -> wire.Run:
        """Run a declared pipeline now; NotFound when none is declared, Conflict when it runs."""
        return (await self._at.below(name).do("run", None, wire.RunBegun)).run
