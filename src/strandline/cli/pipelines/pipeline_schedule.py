"""``strandline pipeline schedule``, ``ls`` and ``runs``: runs and lists declared pipelines.

Declarations are in the settings file of ``strandline serve``: ``--config``, or
``strandline.toml`` in this folder.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterable
from typing import Annotated, cast

import msgspec
from cyclopts import Parameter

from strandline.api.pipelines import PipelineRun, RunLine, ScheduledPipeline
from strandline.assembly import RUNS_TOPIC
from strandline.cli import open_store
from strandline.cli.errors import FAILED
from strandline.cli.options import TARGET, Flag, Target
from strandline.cli.output import formatting
from strandline.cli.output.formatting import OutputRow, PreparedRow
from strandline.cli.output.output import output
from strandline.cli.serve.serve import settings_file
from strandline.client.blocking.store import RemoteStore
from strandline.errors import Invalid, StrandlineError
from strandline.pipelines.schedule.history import runs_in
from strandline.pipelines.schedule.registry import PIPELINES
from strandline.pipelines.schedule.scheduler import PipelineScheduler
from strandline.platform.clock import SystemClock
from strandline.server import config
from strandline.server.settings import ServerSettings

_TICK_S = 1.0

Config = Annotated[
    str | None,
    Parameter(name="--config", metavar="FILE", help="Settings; default: strandline.toml."),
]


def list_pipelines(*, config_file: Config = None, target: Target = TARGET) -> None:
    """List all pipelines, and the declared ones with their last and next run."""
    if target.is_remote:
        with _served(target) as store:
            declared = store.pipelines.list()
    else:
        declared = _schedule_of(_settings(target, config_file)).status()
    out = output(target.output)
    out.rows([*(_kind_row(name) for name in PIPELINES), *map(_declared_row, declared)])
    out.end()


def runs(
    name: str | None = None,
    /,
    *,
    limit: Annotated[int, Parameter(alias="-n")] = 20,
    config_file: Config = None,
    target: Target = TARGET,
) -> None:
    """List runs of declared pipelines, the newest first.

    Parameters
    ----------
    name
        Only runs of this declaration.
    limit
        Maximum number of runs.
    """
    if limit < 1:
        raise Invalid("--limit is 1 or more")
    if target.is_remote:
        with _served(target) as store:
            lines = store.pipelines.runs(name, limit=limit)
    else:
        settings = _settings(target, config_file)
        with open_store.open_to_read(settings.data, settings.store.lake.url) as local:
            lines = []
            if RUNS_TOPIC in local.topics(RUNS_TOPIC):
                lines = runs_in(local.existing_topic(RUNS_TOPIC), name=name, limit=limit)
    out = output(target.output)
    out.rows([_run_row(line) for line in lines])
    out.end()


def schedule(
    *,
    data: Annotated[str | None, Parameter(metavar="DIR", help="Directory of the store.")] = None,
    config_file: Config = None,
    once: Flag = False,
    now: Annotated[list[str] | None, Parameter(metavar="NAME", negative="")] = None,
    target: Target = TARGET,
) -> int:
    """Run the declared pipelines of a store when they are due, until stopped.

    Works while a server or another process has the store open: each run happens once.

    Parameters
    ----------
    once
        Run the pipelines that are due now, wait and exit; exit code 1 if a run failed.
    now
        Run this declared pipeline now, due or not, and exit; repeatable. A server runs it itself.
    """
    if now and target.is_remote:
        with _served(target) as store:
            started = [store.pipelines.start(each) for each in now]
        _print_runs(target, started)
        return 0
    settings = _settings(target, config_file, data)
    open_store.check_store_exists(settings.data)
    if not settings.store.pipelines.declared:
        error = Invalid("no pipeline is declared")
        error.add_note("add [[store.pipelines.declared]] to strandline.toml: name, pipeline, every")
        raise error
    scheduler = _schedule_of(settings)
    with _SignalStop(scheduler) as stopped:
        if not (once or now):
            _run_on(scheduler, stopped, settings)
            return 0
        for each in now or ():
            scheduler.start(each)
        scheduler.wait()
        finished = scheduler.run_due() if once else scheduler.take_ended()
    _print_runs(target, finished)
    return FAILED if any(run.outcome != "done" for run in finished) else 0


class _SignalStop:
    """Signals set an event and stop the schedule; active runs are ended and repeated later."""

    def __init__(self, scheduler: PipelineScheduler) -> None:
        self._scheduler = scheduler
        self._event = threading.Event()
        self._before: dict[int, object] = {}

    def __enter__(self) -> threading.Event:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self._before[number] = signal.signal(number, self._stop)
        return self._event

    def __exit__(self, *_: object) -> None:
        self._scheduler.stop()
        for number, handler in self._before.items():
            signal.signal(number, cast("signal.Handlers", handler))

    def _stop(self, *_: object) -> None:
        self._event.set()
        self._scheduler.request_stop()


def _run_on(
    scheduler: PipelineScheduler, stopped: threading.Event, settings: ServerSettings
) -> None:
    count, clock = len(settings.store.pipelines.declared), SystemClock()
    directory = os.path.abspath(settings.data)
    _print_line(
        f"running {count} declared pipelines of {directory} when they are due: stop with Ctrl-C"
    )
    reported = ""
    while not clock.wait(stopped, _TICK_S):
        try:
            started, problem = scheduler.start_due(), ""
        except (OSError, StrandlineError) as error:
            started, problem = [], str(error)
        if problem and problem != reported:
            _print_line(f"error: {problem}")
        reported = problem
        for run in started:
            _print_line(f"{run.name}: run {run.number} started")
        for run in scheduler.take_ended():
            details = f": {run.failure}" if run.failure else f", {run.rows} rows"
            _print_line(
                f"{run.name}: run {run.number} is {run.outcome} after {run.seconds:.1f} s{details}"
            )


def _print_line(text: str) -> None:
    print(formatting.plain(text), file=sys.stderr, flush=True)


def _settings(target: Target, file: str | None, data: str | None = None) -> ServerSettings:
    """Settings of the file, the environment and the flags; flags and contexts take precedence."""
    flags: dict[str, object] = {}
    if data is not None:
        flags["data"] = data
    elif target.store_path or target.context or target.is_remote:
        flags["data"] = target.store
    if target.lake_url:
        flags["store.lake.url"] = target.lake_url
    return config.settings_of(file=settings_file(file), environment=dict(os.environ), flags=flags)


def _schedule_of(settings: ServerSettings) -> PipelineScheduler:
    store = settings.store
    return PipelineScheduler(
        settings.data, store.pipelines, lake=store.lake.url, views=store.views.url
    )


def _served(target: Target) -> RemoteStore:
    return cast("RemoteStore", open_store.open_target_to_read(target))


def _kind_row(name: str) -> OutputRow:
    values = {"pipeline": name, "does": PIPELINES[name].description}
    columns = dict.fromkeys(("name", "when", "last", "outcome", "next"))
    return PreparedRow(dict(values), {**values, **columns})


def _declared_row(each: ScheduledPipeline) -> OutputRow:
    last = each.last
    outcome = None if last is None else last.outcome or "running"
    columns = {
        "pipeline": each.pipeline,
        "does": None,
        "name": each.name,
        "when": each.when,
        "last": None if last is None else formatting.time_text(last.begun_us),
        "outcome": formatting.plain(each.problem) if each.problem else outcome,
        "next": formatting.time_text(each.next_us),
    }
    return PreparedRow(msgspec.to_builtins(each), columns)


def _run_row(line: RunLine) -> OutputRow:
    return PreparedRow({"seq": line.seq, **msgspec.to_builtins(line.run)}, _run_cells(line.run))


def _print_runs(target: Target, ended: Iterable[PipelineRun]) -> None:
    out = output(target.output)
    out.rows([PreparedRow(msgspec.to_builtins(run), _run_cells(run)) for run in ended])
    out.end()


def _run_cells(run: PipelineRun) -> dict[str, str | None]:
    return {
        "name": run.name,
        "run": str(run.number),
        "pipeline": run.pipeline,
        "begun": formatting.time_text(run.begun_us),
        "seconds": None if run.ended_us is None else f"{run.seconds:.1f}",
        "rows": None if run.ended_us is None else str(run.rows),
        "outcome": run.outcome or "running",
        "failure": formatting.plain(run.failure) if run.failure else None,
    }
