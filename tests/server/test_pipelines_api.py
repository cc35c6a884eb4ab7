"""Promise: a server runs declared pipelines when they are due, and tells who may know."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

import strandline
from strandline.assembly import RUNS_TOPIC
from strandline.config.pipeline_config import DeclaredPipeline
from strandline.config.settings import PipelineSettings, Settings
from strandline.errors import Invalid
from strandline.server.serve import Server
from strandline.server.settings import ServerSettings
from tests.server.asking import Asking, Refusal
from tests.server.running import DEADLINE_S, Running, running

OFTEN = DeclaredPipeline(name="often", pipeline="scrub", every="1s")


def settings(*declared: DeclaredPipeline, scheduled: bool = True) -> ServerSettings:
    pipelines = PipelineSettings(declared=declared, scheduled=scheduled)
    return ServerSettings(store=Settings(pipelines=pipelines))


def wait_for_runs(http: Asking, count: int) -> list[dict[str, object]]:
    deadline = time.monotonic() + DEADLINE_S
    while len(found := http.get("/v0/pipelines/runs")["runs"]) < count:
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    return [line["run"] for line in found]


def test_what_is_due_runs_by_itself_and_is_counted(tmp_path: Path):
    with running(tmp_path, settings=settings(OFTEN)) as server, Asking(server) as http:
        *_, first = wait_for_runs(http, 2)
        numbers = http.raw("GET", "/v0/metrics", headers={"accept": "text/plain"}).text

    assert (first["name"], first["outcome"], first["number"]) == ("often", "done", 1)
    assert first["due_us"] % 1_000_000 == 0
    assert 'strandline_pipeline_failures_total{pipeline="often"} 0\n' in numbers
    assert 'strandline_pipeline_last_success_timestamp_seconds{pipeline="often"} 1' in numbers
    assert _number(numbers, 'strandline_pipeline_runs_total{pipeline="often"}') >= 2


def test_a_server_that_is_told_not_to_schedule_runs_only_what_is_asked_for(tmp_path: Path):
    with running(tmp_path, settings=settings(OFTEN, scheduled=False)) as server:
        assert not _has_job()
        with Asking(server) as http:
            answer = http.raw("POST", "/v0/pipelines/often/run")
            (run,) = wait_for_runs(http, 1)

    assert answer.status_code == 202
    assert (run["due_us"], run["outcome"]) == (None, "done")


def test_a_server_without_declarations_has_no_job_for_them(tmp_path: Path):
    with running(tmp_path) as server, Asking(server) as http:
        assert not _has_job()
        assert http.get("/v0/pipelines")["pipelines"] == []
        assert http.get("/v0/pipelines/runs")["runs"] == []
        with pytest.raises(Refusal, match="not_found"):
            http.post("/v0/pipelines/often/run")
        assert RUNS_TOPIC not in server.store.topics("strandline.")


def test_a_run_that_a_server_ends_with_is_stopped_and_run_again(tmp_path: Path):
    pipe = tmp_path / "rows.csv"
    os.mkfifo(pipe)
    arguments = {"topic": "rows", "sources": [str(pipe)], "create": True}
    slow = DeclaredPipeline(name="slow", pipeline="import", every="1s", arguments=arguments)
    with running(tmp_path, settings=settings(slow)) as server, Asking(server) as http:
        deadline = time.monotonic() + DEADLINE_S
        while not (told := http.get("/v0/pipelines")["pipelines"][0])["running"]:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert told["last"]["outcome"] is None
        with pytest.raises(Refusal, match="is running"):
            http.post("/v0/pipelines/slow/run")
    pipe.unlink()
    pipe.write_text("id\n1\n")
    with running(tmp_path, settings=settings(slow)) as server, Asking(server) as http:
        *_, again, stopped = wait_for_runs(http, 2)

    assert (stopped["outcome"], again["outcome"]) == ("stopped", "done")
    with strandline.open(str(tmp_path / "data"), readonly=True) as store:
        assert store.topic("rows").head_seq == 1


def test_who_may_see_numbers_sees_runs_and_only_an_admin_runs(tmp_path: Path):
    tokens = {"watcher": "metrics", "reader": "read", "boss": "admin,metrics"}
    off = settings(OFTEN, scheduled=False)
    with running(tmp_path, settings=off, tokens=tokens) as server:
        told = {
            (name, verb): _status(server, name, *asked)
            for name in tokens
            for verb, asked in {
                "list": ("GET", "/v0/pipelines"),
                "runs": ("GET", "/v0/pipelines/runs"),
                "run": ("POST", "/v0/pipelines/often/run"),
            }.items()
        }
        with Asking(server, "boss") as http:
            entries = http.get("/v0/audit")["entries"]

    assert [told["watcher", verb] for verb in ("list", "runs", "run")] == [200, 200, 403]
    assert [told["reader", verb] for verb in ("list", "runs", "run")] == [403, 403, 403]
    assert [told["boss", verb] for verb in ("list", "runs", "run")] == [200, 200, 202]
    assert any(entry["what"].get("path") == "/v0/pipelines/often/run" for entry in entries)


def test_a_bad_declaration_keeps_the_server_from_starting(tmp_path: Path):
    bad = DeclaredPipeline(name="bad", pipeline="scrub", every="1s", arguments={"topic": "x"})

    with pytest.raises(Invalid, match="declared pipeline 'bad': there is no argument 'topic'"):
        Server(settings(bad))


def _status(server: Running, token: str, method: str, path: str) -> int:
    with Asking(server, token) as http:
        try:
            return http.raw(method, path).status_code
        except Refusal as refusal:
            return refusal.status


def _has_job() -> bool:
    return any(thread.name == "strandline-schedule" for thread in threading.enumerate())


def _number(text: str, name: str) -> float:
    (line,) = [line for line in text.splitlines() if line.startswith(name)]
    return float(line.rpartition(" ")[2])
