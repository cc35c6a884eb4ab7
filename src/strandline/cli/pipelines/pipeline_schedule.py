"""``strandline pipeline schedule``, ``ls`` and ``runs``: declared pipelines, run and told of.

Declarations are in the file that ``strandline serve`` reads, too: ``--config``, or
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

from strandline.api.pipelines import Run, RunLine, Scheduled
from strandline.assembly import RUNS_TOPIC
from strandline.cli import open_store
from strandline.cli.errors import FAILED
from strandline.cli.options import TARGET, Flag, Target
from strandline.cli.output import formatting
from strandline.cli.output.formatting import Made, Row
from strandline.cli.output.output import output
from strandline.cli.serve.serve import settings_file
from strandline.client.blocking.store import RemoteStore
from strandline.errors import Invalid, StrandlineError
from strandline.pipelines.schedule.history import runs_in
from strandline.pipelines.schedule.registry import PIPELINES
from strandline.pipelines.schedule.scheduler import Schedule
from strandline.platform.clock import SystemClock
from strandline.server import config
from strandline.server.settings import ServerSettings

_TICK_S = 1.0

Config = Annotated[
    str | None,
    Parameter(name="--config", metavar="FILE", help="Settings; strandline.toml if it is here."),
]


def list_pipelines(*, config_file: Config = None, target: Target = TARGET) -> None:
    """List the pipelines that there are, and those that are declared, with last and next run."""
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
        How many.
    """
    if limit < 1:
        raise Invalid("--limit is 1 or more")
    if target.is_remote:
        with _served(target) as store:
            found = store.pipelines.runs(name, limit=limit)
    else:
        settings = _settings(target, config_file)
        with open_store.open_to_read(settings.data, settings.store.lake.url) as local:
            found = []
            if RUNS_TOPIC in local.topics(RUNS_TOPIC):
                found = runs_in(local.existing_topic(RUNS_TOPIC), name=name, limit=limit)
    out = output(target.output)
    out.rows([_run_row(line) for line in found])
    out.end()


def schedule(
    *,
    data: Annotated[str | None, Parameter(metavar="DIR", help="Directory of the store.")] = None,
    config_file: Config = None,
    once: Flag = False,
    now: Annotated[list[str] | None, Parameter(metavar="NAME", negative="")] = None,
    target: Target = TARGET,
) -> int:
    """Run the declared pipelines of a store when they are due, until told to stop.

    Works beside a server or another process that has the store open: each run is made once.

    Parameters
    ----------
    once
        Run what is due now, wait for it and end; the exit code is 1 when a run failed.
    now
        Run this declared pipeline now, due or not, and end; repeatable. A server is asked to.
    """
    if now and target.is_remote:
        with _served(target) as store:
            begun = [store.pipelines.start(each) for each in now]
        _print_runs(target, begun)
        return 0
    settings = _settings(target, config_file, data)
    open_store.must_exist(settings.data)
    if not settings.store.pipelines.declared:
        error = Invalid("no pipeline is declared")
        error.add_note("add [[store.pipelines.declared]] to strandline.toml: name, pipeline, every")
        raise error
    made = _schedule_of(settings)
    with _stopping(made) as stopping:
        if not (once or now):
            _run_on(made, stopping, settings)
            return 0
        for each in now or ():
            made.start(each)
        made.wait()
        ended = made.once() if once else made.ended()
    _print_runs(target, ended)
    return FAILED if any(run.outcome != "done" for run in ended) else 0


class _stopping:  # noqa: N801 - used as a function
    """Signals set an event and stop the schedule; what runs is ended, and run again later."""

    def __init__(self, made: Schedule) -> None:
        self._made = made
        self._event = threading.Event()
        self._before: dict[int, object] = {}

    def __enter__(self) -> threading.Event:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self._before[number] = signal.signal(number, self._told)
        return self._event

    def __exit__(self, *_: object) -> None:
        self._made.stop()
        for number, handler in self._before.items():
            signal.signal(number, cast("signal.Handlers", handler))

    def _told(self, *_: object) -> None:
        self._event.set()
        self._made.stop_soon()


def _run_on(made: Schedule, stopping: threading.Event, settings: ServerSettings) -> None:
    count, clock = len(settings.store.pipelines.declared), SystemClock()
    where = os.path.abspath(settings.data)
    _say(f"running {count} declared pipelines of {where} when they are due: stop with Ctrl-C")
    told = ""
    while not clock.wait(stopping, _TICK_S):
        try:
            begun, problem = made.look(), ""
        except (OSError, StrandlineError) as error:
            begun, problem = [], str(error)
        if problem and problem != told:
            _say(f"error: {problem}")
        told = problem
        for run in begun:
            _say(f"{run.name}: run {run.number} has begun")
        for run in made.ended():
            why = f": {run.failure}" if run.failure else f", {run.rows} rows"
            _say(f"{run.name}: run {run.number} is {run.outcome} after {run.seconds:.1f} s{why}")


def _say(text: str) -> None:
    print(formatting.plain(text), file=sys.stderr, flush=True)


def _settings(target: Target, file: str | None, data: str | None = None) -> ServerSettings:
    """What the file, the environment and the flags say; flags and contexts win."""
    flags: dict[str, object] = {}
    if data is not None:
        flags["data"] = data
    elif target.store_path or target.context or target.is_remote:
        flags["data"] = target.store
    if target.lake_url:
        flags["store.lake.url"] = target.lake_url
    return config.settings_of(file=settings_file(file), environment=dict(os.environ), flags=flags)


def _schedule_of(settings: ServerSettings) -> Schedule:
    store = settings.store
    return Schedule(settings.data, store.pipelines, lake=store.lake.url, views=store.views.url)


def _served(target: Target) -> RemoteStore:
    return cast("RemoteStore", open_store.reading(target))


def _kind_row(name: str) -> Row:
    told = {"pipeline": name, "does": PIPELINES[name].does}
    columns = dict.fromkeys(("name", "when", "last", "outcome", "next"))
    return Made(dict(told), {**told, **columns})


def _declared_row(each: Scheduled) -> Row:
    last = each.last
    outcome = None if last is None else last.outcome or "running"
    columns = {
        "pipeline": each.pipeline,
        "does": None,
        "name": each.name,
        "when": each.when,
        "last": None if last is None else formatting.moment(last.begun_us),
        "outcome": formatting.plain(each.problem) if each.problem else outcome,
        "next": formatting.moment(each.next_us),
    }
    return Made(msgspec.to_builtins(each), columns)


def _run_row(line: RunLine) -> Row:
    return Made({"seq": line.seq, **msgspec.to_builtins(line.run)}, _run_cells(line.run))


def _print_runs(target: Target, ended: Iterable[Run]) -> None:
    out = output(target.output)
    out.rows([Made(msgspec.to_builtins(run), _run_cells(run)) for run in ended])
    out.end()


def _run_cells(run: Run) -> dict[str, str | None]:
    return {
        "name": run.name,
        "run": str(run.number),
        "pipeline": run.pipeline,
        "begun": formatting.moment(run.begun_us),
        "seconds": None if run.ended_us is None else f"{run.seconds:.1f}",
        "rows": None if run.ended_us is None else str(run.rows),
        "outcome": run.outcome or "running",
        "failure": formatting.plain(run.failure) if run.failure else None,
    }
