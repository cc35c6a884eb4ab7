"""``strandline queue``: puts, claims and acks the jobs of a queue.

A claim prints a ticket for every job, ``SEQ:LEASE``. With the ticket, any process may ack, nack or
extend the job. A lease runs while a process has the store open, and starts again at each opening.
The jobs of a lost worker are therefore returned with ``release``.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, TypedDict

import msgspec
from cyclopts import App, Parameter

from strandline.cli.input.confirm import confirm
from strandline.cli.input.input import batches_of
from strandline.cli.open_view import ReadOnlyView, open_existing_view, open_or_create_view, queue_of
from strandline.cli.options import VIEW_TARGET, Flag, ViewTarget, microseconds, milliseconds
from strandline.cli.output import formatting
from strandline.cli.output.formatting import Cells, Json, OutputRow, PreparedRow, fact_row, row_of
from strandline.cli.output.output import JsonLinesOutput, RowPrinter, output
from strandline.cli.views import dead_letters
from strandline.errors import Conflict, Invalid
from strandline.views.queue.codec import PRIORITY
from strandline.views.queue.job import AckResult, Job, LeaseTicket, PeekedJob, PutResult

if TYPE_CHECKING:  # a view is imported when it is opened
    from strandline.views.queue.queue import Queue

_TICKET = re.compile(r"(\d{1,18}):([0-9a-f]{1,64})")

app = App(name="queue")
app.command(dead_letters.app)
app.command(dead_letters.list_letters, name="dlq")
app.command(dead_letters.redrive)

Name = Annotated[str, Parameter(metavar="NAME", help="Name of the queue, and of its topic.")]
Tickets = Annotated[str, Parameter(metavar="TICKET", help="Tickets of claimed jobs, from `claim`.")]


@Parameter(name="*", group="Options of every job")
@dataclasses.dataclass(frozen=True, kw_only=True)
class _JobOptions:
    """Options that all jobs of one put share."""

    priority: Annotated[
        int, Parameter(help="Jobs of a lower number are claimed first, from 0 to 255.")
    ] = PRIORITY
    delay: Annotated[
        str | None, Parameter(help="Time before the first claim: 500ms, 30s, 15m, 24h.")
    ] = None
    at: Annotated[
        str | None,
        Parameter(help="Earliest time of a claim: 2026-03-28T14:05:00Z, or microseconds."),
    ] = None
    ttl: Annotated[
        str | None, Parameter(help="Expire a job that was not claimed in this time: 30s, 15m, 24h.")
    ] = None
    key: Annotated[
        str | None,
        Parameter(help="Put nothing if a job of this key is waiting or in flight. For one job."),
    ] = None
    group: Annotated[
        str | None, Parameter(help="Jobs of a group are claimed one after the other, in order.")
    ] = None
    tag: Annotated[str | None, Parameter(help="A tag, for filters of dead letters.")] = None

    def put_options(self, count: int) -> _PutOptions:
        """The arguments of ``Queue.put_many`` for this number of jobs."""
        if self.delay is not None and self.at is not None:
            raise Invalid("give --delay or --at, not both")
        return {
            "priority": self.priority,
            "delay": 0.0 if self.delay is None else milliseconds(self.delay) / 1000,
            "at": None if self.at is None else microseconds(self.at),
            "ttl": None if self.ttl is None else milliseconds(self.ttl) / 1000,
            "keys": None if self.key is None else [os.fsencode(self.key)] * count,
            "groups": None if self.group is None else [os.fsencode(self.group)] * count,
            "tag": self.tag,
        }


_DEFAULT_JOB_OPTIONS = _JobOptions()


class _PutOptions(TypedDict):
    priority: int
    delay: float
    at: int | None
    ttl: float | None
    keys: Sequence[bytes] | None
    groups: Sequence[bytes] | None
    tag: str | None


class _PutResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a put, or of one of its batches."""

    name: str
    jobs: int
    existed: int
    """Jobs that existed before, under the same key."""
    first_seq: int | None
    last_seq: int | None


@app.command
def put(
    name: Name,
    /,
    *data: str,
    stdin: Flag = False,
    batch: int | None = None,
    jobs: _JobOptions = _DEFAULT_JOB_OPTIONS,
    target: ViewTarget = VIEW_TARGET,
) -> None:
    """Put jobs, and create the queue with its topics and store if they do not exist.

    Data that begins with a dash goes after `--`.

    Parameters
    ----------
    data
        One job each. Default: the lines of a piped stdin.
    stdin
        Read jobs from stdin, one per line.
    batch
        Jobs that become durable together, or not at all. Default: all DATA, 1000 lines.
    """
    if batch is not None and batch < 1:
        raise Invalid(f"--batch {batch} is not possible: it is 1 or more")
    if jobs.key is not None and (stdin or len(data) != 1):
        raise Invalid("--key is for one job: give one DATA argument with it")
    jobs.put_options(0)  # checked before a store is created
    batches = batches_of(data, batch, stdin=stdin, once=False)
    with open_or_create_view(target, "queue", name, queue_of) as queue:
        putter = _Putter(name, output(target.output))
        try:
            for each in batches:
                putter.add(queue.put_many(each, **jobs.put_options(len(each))))
        except BaseException:
            if putter.puts:
                putter.end()
            raise
        putter.end()


@app.command
def claim(
    name: Name,
    /,
    *,
    max: Annotated[int, Parameter(name=["--max", "-n"])] = 1,
    worker: str = "",
    lease: str | None = None,
    wait: str | None = None,
    target: ViewTarget = VIEW_TARGET,
) -> None:
    """Claim the next jobs, and print each with its ticket for ack and nack.

    Parameters
    ----------
    max
        At most this many.
    worker
        Name of the worker; `queue release` returns all jobs of a worker.
    lease
        Duration of the lease: 500ms, 30s, 15m. Default: the option of the queue.
    wait
        Wait this long for a job if there is none.
    """
    lease_s = None if lease is None else milliseconds(lease) / 1000
    wait_s = 0.0 if wait is None else milliseconds(wait) / 1000
    out = output(target.output)
    with open_existing_view(target, "queue", name, queue_of) as queue:
        jobs = queue.claim(max, worker=worker, lease=lease_s, wait_s=wait_s)
        out.rows([_job_row(job) for job in jobs])
    out.end()


@app.command
def ack(name: Name, /, *ticket: Tickets, target: ViewTarget = VIEW_TARGET) -> None:
    """Report that jobs are done, which removes them from the queue."""
    _update(name, ticket, target, lambda queue, held: queue.ack_many(held))


@app.command
def nack(
    name: Name, /, *ticket: Tickets, delay: str | None = None, target: ViewTarget = VIEW_TARGET
) -> None:
    """Return jobs, to be claimed again.

    Parameters
    ----------
    delay
        Time before the next claim: 500ms, 30s, 15m.
    """
    delay_s = 0.0 if delay is None else milliseconds(delay) / 1000
    _update(name, ticket, target, lambda queue, held: queue.nack_many(held, delay=delay_s))


@app.command
def extend(
    name: Name, /, *ticket: Tickets, lease: str | None = None, target: ViewTarget = VIEW_TARGET
) -> None:
    """Extend the lease of claimed jobs, from now on.

    Parameters
    ----------
    lease
        Duration of the lease: 500ms, 30s, 15m. Default: the option of the queue.
    """
    lease_s = None if lease is None else milliseconds(lease) / 1000
    _update(name, ticket, target, lambda queue, held: queue.extend_many(held, lease=lease_s))


@app.command
def release(name: Name, worker: str, /, *, target: ViewTarget = VIEW_TARGET) -> None:
    """Return all jobs that a worker holds, for example after it crashed.

    Parameters
    ----------
    worker
        Name of the worker in the claims.
    """
    with open_existing_view(target, "queue", name, queue_of) as queue:
        released = queue.release(worker)
        output(target.output).one(fact_row({"name": name, "worker": worker, "released": released}))


@app.command
def purge(
    name: Name,
    /,
    *,
    tag: str | None = None,
    from_seq: int | None = None,
    to_seq: int | None = None,
    dry_run: Flag = False,
    yes: Annotated[Flag, Parameter(name=["--yes", "-y"])] = False,
    target: ViewTarget = VIEW_TARGET,
) -> None:
    """Delete waiting jobs: all, or those that match. Jobs in flight stay. It asks first.

    Parameters
    ----------
    tag
        Jobs with this tag; `eu*` for tags with this prefix.
    from_seq
        Jobs from this seq on.
    to_seq
        Jobs up to this seq, inclusive.
    dry_run
        Only report how many match.
    yes
        Do not ask for confirmation.
    """
    with open_existing_view(target, "queue", name, queue_of) as queue:
        purged = queue.purge(tag=tag, from_seq=from_seq, to_seq=to_seq, dry_run=True)
        if purged and not dry_run:
            if not yes:
                confirm(f"Delete {purged} jobs of {name!r}?")
            purged = queue.purge(tag=tag, from_seq=from_seq, to_seq=to_seq)
        result = fact_row({"name": name, "purged": purged, "dry_run": dry_run})
        output(target.output).one(result)


@app.command
def peek(
    name: Name,
    /,
    *,
    max: Annotated[int, Parameter(name=["--max", "-n"])] = 10,
    target: ViewTarget = VIEW_TARGET,
) -> None:
    """Print the jobs that would be claimed next, without claiming them.

    Parameters
    ----------
    max
        At most this many.
    """
    out = output(target.output)
    with _view(name, target) as view:
        jobs = view.run(lambda queue: queue.peek(max))
        out.rows([_waiting_row(job) for job in jobs])
    out.end()


@app.command
def stats(name: Name, /, *, target: ViewTarget = VIEW_TARGET) -> None:
    """Print how many jobs are waiting, in flight, or dead letters."""
    with _view(name, target) as view:
        numbers = view.run(lambda queue: queue.statistics())
    output(target.output).one(row_of(numbers, waiting=numbers.waiting))


@app.command
def pause(name: Name, /, *, target: ViewTarget = VIEW_TARGET) -> None:
    """Deliver no jobs until `queue resume`. Puts are still accepted."""
    with open_existing_view(target, "queue", name, queue_of) as queue:
        queue.pause()
        output(target.output).one(fact_row({"name": name, "paused": queue.paused}))


@app.command
def resume(name: Name, /, *, target: ViewTarget = VIEW_TARGET) -> None:
    """Deliver jobs again."""
    with open_existing_view(target, "queue", name, queue_of) as queue:
        queue.resume()
        output(target.output).one(fact_row({"name": name, "paused": queue.paused}))


class _Putter:
    """Counts jobs that were put and prints the result: per batch as jsonl, else at the end."""

    def __init__(self, name: str, out: RowPrinter) -> None:
        self.puts: list[PutResult] = []
        self._name = name
        self._out = out
        self._per_batch = isinstance(out, JsonLinesOutput)

    def add(self, puts: list[PutResult]) -> None:
        self.puts += puts
        if self._per_batch:
            self._out.one(_summary_row(self._name, self.puts))
            self.puts.clear()

    def end(self) -> None:
        if not self._per_batch:
            self._out.one(_summary_row(self._name, self.puts))


def _view(name: str, target: ViewTarget) -> ReadOnlyView[Queue]:
    return ReadOnlyView(target, "queue", name, queue_of)


def _update(
    name: str,
    tickets: Iterable[str],
    target: ViewTarget,
    operation: Callable[[Queue, list[LeaseTicket]], AckResult],
) -> None:
    parsed = [_ticket(text) for text in tickets]
    if not parsed:
        raise Invalid("name the jobs by the tickets of a claim, as SEQ:LEASE")
    with open_existing_view(target, "queue", name, queue_of) as queue:
        result = operation(queue, parsed)
        output(target.output).one(
            fact_row({"name": name, "done": result.done, "skipped": list(result.skipped)})
        )
    if result.skipped:
        error = Conflict(f"{len(result.skipped)} of {len(parsed)} jobs are not held by that ticket")
        error.add_note("they are acked already, or were claimed by another worker since")
        raise error


def _ticket(text: str) -> LeaseTicket:
    match = _TICKET.fullmatch(text)
    if match is None:
        error = Invalid(f"{text!r} is not a ticket: a ticket is SEQ:LEASE")
        error.add_note("`strandline queue claim` prints the ticket of every job")
        raise error
    return LeaseTicket(int(match[1]), int(match[2], 16))


def _summary_row(name: str, puts: list[PutResult]) -> OutputRow:
    seqs = [each.seq for each in puts]
    existed = sum(each.existed for each in puts)
    totals = _PutResult(
        name=name,
        jobs=len(puts),
        existed=existed,
        first_seq=min(seqs, default=None),
        last_seq=max(seqs, default=None),
    )
    texts = {"name": name, "jobs": str(len(puts))}
    if seqs:
        one = totals.first_seq == totals.last_seq
        texts["seqs"] = f"{totals.first_seq}" if one else f"{totals.first_seq} to {totals.last_seq}"
    if existed:
        texts["there before"] = str(existed)
    return row_of(totals, texts)


def _job_row(job: Job) -> OutputRow:
    ticket = f"{job.seq}:{job.lease:x}"
    json: Json = {"ticket": ticket, "seq": job.seq, "ts": job.ts}
    json |= {"deliveries": job.deliveries, "deadline": job.deadline}
    columns: Cells = {
        "ticket": ticket,
        "deliveries": str(job.deliveries),
        "lease ends": formatting.time_text(job.deadline),
        **_columns(job),
    }
    return PreparedRow(json | _fields(job), columns)


def _waiting_row(job: PeekedJob) -> OutputRow:
    json: Json = {"seq": job.seq, "ts": job.ts}
    json |= {"priority": job.priority, "deliveries": job.deliveries}
    columns: Cells = {
        "seq": str(job.seq),
        "put": formatting.time_text(job.ts),
        "priority": str(job.priority),
        "deliveries": str(job.deliveries),
        **_columns(job),
    }
    return PreparedRow(json | _fields(job), columns)


def _fields(job: Job | PeekedJob) -> Json:
    json: Json = {}
    formatting.put_bytes(json, "key", job.key)
    json["tag"] = job.tag
    formatting.put_bytes(json, "data", job.data)
    return json


def _columns(job: Job | PeekedJob) -> dict[str, str | None]:
    return {
        "key": None if job.key is None else formatting.plain(job.key),
        "tag": None if job.tag is None else formatting.plain(job.tag),
        "data": formatting.plain(job.data),
    }
