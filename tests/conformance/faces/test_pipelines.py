"""Promise: both clients list, run and look back at a server's declared pipelines alike.

An open store has no such verbs: whoever opens it runs a ``PipelineScheduler`` himself.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

import strandline
from strandline.config.pipeline_config import DeclaredPipeline
from strandline.config.settings import PipelineSettings, Settings
from strandline.errors import Invalid, NotFound
from strandline.server.settings import ServerSettings
from tests.conformance.faces.awaiting import Awaited, Loop
from tests.server.running import DEADLINE_S, running

DECLARED = (
    DeclaredPipeline(
        name="broken", pipeline="export", arguments={"topic": "x", "to": "x"}, every="1d"
    ),
    DeclaredPipeline(name="nightly", pipeline="scrub", at="30 3 * * *"),
)


@pytest.fixture(scope="module", params=["blocking", "asynchronous"])
def store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    path = tmp_path_factory.mktemp(request.param)
    pipelines = PipelineSettings(declared=DECLARED, scheduled=False)
    settings = ServerSettings(store=Settings(pipelines=pipelines))
    with running(path, settings=settings) as server:
        if request.param == "blocking":
            with strandline.connect(server.url) as connected:
                yield connected
            return
        loop = Loop()
        try:
            with Awaited(strandline.connect_async(server.url), loop) as awaited:
                yield awaited
        finally:
            loop.close()


def wait_for_runs(store: Any, name: str, count: int) -> list[Any]:
    deadline = time.monotonic() + DEADLINE_S
    while len(found := store.pipelines.runs(name)) < count:
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    return list(found)


def test_a_run_that_is_asked_for_is_made_and_told(store: Any):
    begun = store.pipelines.start("nightly")
    (line,) = wait_for_runs(store, "nightly", 1)
    _, nightly = store.pipelines.list()

    assert (begun.number, begun.outcome, begun.due_us) == (1, None, None)
    assert (line.run.outcome, line.run.failure) == ("done", "")
    assert line.run.ended_us >= line.run.begun_us == begun.begun_us
    assert (nightly.name, nightly.when) == ("nightly", "at 30 3 * * * UTC")
    assert (nightly.last, nightly.runs, nightly.failures) == (line.run, 1, 0)
    assert nightly.last_success_us == line.run.ended_us


def test_a_failed_run_is_told_with_its_reason_and_counted(store: Any):
    for number in (1, 2):
        store.pipelines.start("broken")
        newest, *_ = wait_for_runs(store, "broken", number)

    assert (newest.run.outcome, newest.run.number) == ("failed", 2)
    assert "there is no topic 'x'" in newest.run.failure
    broken, _ = store.pipelines.list()
    assert (broken.failures, broken.last_success_us) == (2, None)
    (older,) = store.pipelines.runs("broken", before=newest.seq)
    assert older.run.number == 1
    assert store.pipelines.runs(limit=1) == [newest]


def test_what_is_not_declared_cannot_be_run(store: Any):
    with pytest.raises(NotFound, match="no pipeline 'weekly' is declared"):
        store.pipelines.start("weekly")
    assert store.pipelines.runs("weekly") == []
    with pytest.raises(Invalid):
        store.pipelines.runs(limit=0)
