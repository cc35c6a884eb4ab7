"""``strandline queue``: jobs of a work queue, put, claimed and settled.

A claim prints a ticket for every job, ``SEQ:LEASE``. Whoever has it may ack, nack or extend the
job, from any process. A lease runs while some process has the store open; found at an opening, it
begins anew. So what a worker that is gone holds is given back at once with ``release``.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, TypedDict

import msgspec
from cyclopts import App, Parameter

from strandline.cli.input.confirm import ask
from strandline.cli.input.input import batches_of
from strandline.cli.open_view import Looking, changing, putting, queue_of
from strandline.cli.options import VIEW_TARGET, Flag, ViewTarget, microseconds, milliseconds
from strandline.cli.output import formatting
from strandline.cli.output.formatting import Cells, Json, Made, Row, fact_row, row_of
from strandline.cli.output.output import JsonLinesOutput, Output, output
from strandline.cli.views import dead_letters
from strandline.errors import Conflict, Invalid
from strandline.views.queue.codec import PRIORITY
from strandline.views.queue.job import Job, Put, Settled, Ticket, Waiting

if TYPE_CHECKING:  # views are loaded when one is asked for
    from strandline.views.queue.queue import Queue

_TICKET = re.compile(r"(\d{1,18}):([0-9a-f]{1,64})")

app = App(name="queue")
app.command(dead_letters.app)
app.command(dead_letters.list_letters, name="dlq")
app.command(dead_letters.redrive)

Name = Annotated[str, Parameter(metavar="NAME", help="Name of the queue, and of its topic.")]
Tickets = Annotated[str, Parameter(metavar="TICKET", help="Claimed jobs, as a claim printed them.")]


@Parameter(name="*", group="What is said of every job")
@dataclasses.dataclass(frozen=True, kw_only=True)
class JobOptions:
    """What the jobs of one put share."""

    priority: Annotated[
        int, Parameter(help="Jobs of a lower number are claimed first, from 0 to 255.")
    ] = PRIORITY
    delay: Annotated[
        str | None, Parameter(help="Not to be claimed before this is over: 500ms, 30s, 15m, 24h.")
    ] = None
    at: Annotated[
        str | None,
        Parameter(help="Not to be claimed before: 2026-03-28T14:05:00Z, or microseconds."),
    ] = None
    ttl: Annotated[
        str | None, Parameter(help="It ends when nobody has claimed it for so long: 30s, 15m, 24h.")
    ] = None
    key: Annotated[
        str | None,
        Parameter(help="Put nothing if a job of this key waits or is in flight. For one job."),
    ] = None
    group: Annotated[
        str | None, Parameter(help="Jobs of a group go out one after the other, in their order.")
    ] = None
    tag: Annotated[str | None, Parameter(help="A tag, to find dead letters by.")] = None

    def given(self, count: int) -> _Said:
        """The same as ``Queue.put_many`` takes it, for so many jobs."""
        if self.delay is not None and self.at is not None:
            raise Invalid("a job waits for its --delay or for a time --at, not for both")
        return {
            "priority": self.priority,
            "delay": 0.0 if self.delay is None else milliseconds(self.delay) / 1000,
            "at": None if self.at is None else microseconds(self.at),
            "ttl": None if self.ttl is None else milliseconds(self.ttl) / 1000,
            "keys": None if self.key is None else [os.fsencode(self.key)] * count,
            "groups": None if self.group is None else [os.fsencode(self.group)] * count,
            "tag": self.tag,
        }


PLAIN_JOBS = JobOptions()


class _Said(TypedDict):
    priority: int
    delay: float
    at: int | None
    ttl: float | None
    keys: Sequence[bytes] | None
    groups: Sequence[bytes] | None
    tag: str | None


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """What one run, or one batch of it, has put."""

    name: str
    jobs: int
    existed: int
    """Those of them that were there before, under the same key."""
    first_seq: int | None
    last_seq: int | None


@app.command
def put(
    name: Name,
    /,
    *data: str,
    stdin: Flag = False,
    batch: int | None = None,
    jobs: JobOptions = PLAIN_JOBS,
    target: ViewTarget = VIEW_TARGET,
) -> None:
    """Put jobs, and make the queue with its topics and store if there are none.

    Data that begins with a dash goes behind `--`.

    Parameters
    ----------
    data
        One job each. Without any, the lines of a piped stdin are taken.
    stdin
        Take jobs from stdin, one per line.
    batch
        Jobs that become durable together, or not at all. Default: all DATA, 1000 lines.
    """
    if batch is not None and batch < 1:
        raise Invalid(f"--batch {batch} cannot be: it is 1 or more")
    if jobs.key is not None and (stdin or len(data) != 1):
        raise Invalid("--key is for one job: give one DATA argument with it")
    jobs.given(0)  # before a store is made
    batches = batches_of(data, batch, stdin=stdin, once=False)
    with putting(target, "queue", name, queue_of) as queue:
        putter = _Putter(name, output(target.output))
        try:
            for each in batches:
                putter.add(queue.put_many(each, **jobs.given(len(each))))
        except BaseException:
            if putter.found:
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
    """Take the next jobs, and print each with the ticket to settle it.

    Parameters
    ----------
    max
        At most so many.
    worker
        Whose they are; `queue release` gives back all that a worker holds.
    lease
        For how long: 500ms, 30s, 15m. Default: what the queue says.
    wait
        When there is none, wait so long for one.
    """
    lease_s = None if lease is None else milliseconds(lease) / 1000
    wait_s = 0.0 if wait is None else milliseconds(wait) / 1000
    out = output(target.output)
    with changing(target, "queue", name, queue_of) as queue:
        jobs = queue.claim(max, worker=worker, lease=lease_s, wait_s=wait_s)
        out.rows([_job_row(job) for job in jobs])
    out.end()


@app.command
def ack(name: Name, /, *ticket: Tickets, target: ViewTarget = VIEW_TARGET) -> None:
    """Say that jobs are done: they leave the queue."""
    _settle(name, ticket, target, lambda queue, held: queue.ack_many(held))


@app.command
def nack(
    name: Name, /, *ticket: Tickets, delay: str | None = None, target: ViewTarget = VIEW_TARGET
) -> None:
    """Give jobs back, to be claimed again.

    Parameters
    ----------
    delay
        Not before this time is over: 500ms, 30s, 15m.
    """
    delay_s = 0.0 if delay is None else milliseconds(delay) / 1000
    _settle(name, ticket, target, lambda queue, held: queue.nack_many(held, delay=delay_s))


@app.command
def extend(
    name: Name, /, *ticket: Tickets, lease: str | None = None, target: ViewTarget = VIEW_TARGET
) -> None:
    """Keep claimed jobs for longer, from now on.

    Parameters
    ----------
    lease
        For how long: 500ms, 30s, 15m. Default: what the queue says.
    """
    lease_s = None if lease is None else milliseconds(lease) / 1000
    _settle(name, ticket, target, lambda queue, held: queue.extend_many(held, lease=lease_s))


@app.command
def release(name: Name, worker: str, /, *, target: ViewTarget = VIEW_TARGET) -> None:
    """Give back all jobs that a worker holds, as when it is gone.

    Parameters
    ----------
    worker
        The name that it claimed them with.
    """
    with changing(target, "queue", name, queue_of) as queue:
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
    """Throw waiting jobs away: all, or those that fit. Jobs in flight stay. It asks first.

    Parameters
    ----------
    tag
        Those with this tag; `eu*` for every tag that begins so.
    from_seq
        Those from this seq on.
    to_seq
        Those up to this seq, which is included.
    dry_run
        Only say how many it would be.
    yes
        Do not ask.
    """
    with changing(target, "queue", name, queue_of) as queue:
        purged = queue.purge(tag=tag, from_seq=from_seq, to_seq=to_seq, dry_run=True)
        if purged and not dry_run:
            if not yes:
                ask(f"Throw {purged} jobs of {name!r} away?")
            purged = queue.purge(tag=tag, from_seq=from_seq, to_seq=to_seq)
        done = fact_row({"name": name, "purged": purged, "dry_run": dry_run})
        output(target.output).one(done)


@app.command
def peek(
    name: Name,
    /,
    *,
    max: Annotated[int, Parameter(name=["--max", "-n"])] = 10,
    target: ViewTarget = VIEW_TARGET,
) -> None:
    """Print the jobs that would be claimed next; they stay where they are.

    Parameters
    ----------
    max
        At most so many.
    """
    out = output(target.output)
    with _looking(name, target) as looking:
        jobs = looking.ask(lambda queue: queue.peek(max))
        out.rows([_waiting_row(job) for job in jobs])
    out.end()


@app.command
def stats(name: Name, /, *, target: ViewTarget = VIEW_TARGET) -> None:
    """Print how many jobs wait, are in flight, or are dead letters."""
    with _looking(name, target) as looking:
        numbers = looking.ask(lambda queue: queue.statistics())
    output(target.output).one(row_of(numbers, waiting=numbers.waiting))


@app.command
def pause(name: Name, /, *, target: ViewTarget = VIEW_TARGET) -> None:
    """Give out no jobs until `queue resume`. Putting goes on."""
    with changing(target, "queue", name, queue_of) as queue:
        queue.pause()
        output(target.output).one(fact_row({"name": name, "paused": queue.paused}))


@app.command
def resume(name: Name, /, *, target: ViewTarget = VIEW_TARGET) -> None:
    """Give out jobs again."""
    with changing(target, "queue", name, queue_of) as queue:
        queue.resume()
        output(target.output).one(fact_row({"name": name, "paused": queue.paused}))


class _Putter:
    """Adds up what was put and prints it: per batch as jsonl, else once at the end."""

    def __init__(self, name: str, out: Output) -> None:
        self.found: list[Put] = []
        self._name = name
        self._out = out
        self._per_batch = isinstance(out, JsonLinesOutput)

    def add(self, found: list[Put]) -> None:
        self.found += found
        if self._per_batch:
            self._out.one(_tally(self._name, self.found))
            self.found.clear()

    def end(self) -> None:
        if not self._per_batch:
            self._out.one(_tally(self._name, self.found))


def _looking(name: str, target: ViewTarget) -> Looking[Queue]:
    return Looking(target, "queue", name, queue_of)


def _settle(
    name: str,
    tickets: Iterable[str],
    target: ViewTarget,
    settle: Callable[[Queue, list[Ticket]], Settled],
) -> None:
    held = [_ticket(text) for text in tickets]
    if not held:
        raise Invalid("name the jobs by the tickets that a claim printed, as SEQ:LEASE")
    with changing(target, "queue", name, queue_of) as queue:
        settled = settle(queue, held)
        output(target.output).one(
            fact_row({"name": name, "done": settled.done, "skipped": list(settled.skipped)})
        )
    if settled.skipped:
        error = Conflict(f"{len(settled.skipped)} of {len(held)} jobs are not held by that ticket")
        error.add_note("they are settled already, or were given to another worker meanwhile")
        raise error


def _ticket(text: str) -> Ticket:
    found = _TICKET.fullmatch(text)
    if found is None:
        error = Invalid(f"{text!r} is no ticket: it is SEQ:LEASE")
        error.add_note("`strandline queue claim` prints the ticket of every job")
        raise error
    return Ticket(int(found[1]), int(found[2], 16))


def _tally(name: str, found: list[Put]) -> Row:
    seqs = [each.seq for each in found]
    existed = sum(each.existed for each in found)
    tally = Tally(
        name=name,
        jobs=len(found),
        existed=existed,
        first_seq=min(seqs, default=None),
        last_seq=max(seqs, default=None),
    )
    texts = {"name": name, "jobs": str(len(found))}
    if seqs:
        one = tally.first_seq == tally.last_seq
        texts["seqs"] = f"{tally.first_seq}" if one else f"{tally.first_seq} to {tally.last_seq}"
    if existed:
        texts["there before"] = str(existed)
    return row_of(tally, texts)


def _job_row(job: Job) -> Row:
    ticket = f"{job.seq}:{job.lease:x}"
    json: Json = {"ticket": ticket, "seq": job.seq, "ts": job.ts}
    json |= {"deliveries": job.deliveries, "deadline": job.deadline}
    columns: Cells = {
        "ticket": ticket,
        "deliveries": str(job.deliveries),
        "lease ends": formatting.moment(job.deadline),
        **_columns(job),
    }
    return Made(json | _fields(job), columns)


def _waiting_row(job: Waiting) -> Row:
    json: Json = {"seq": job.seq, "ts": job.ts}
    json |= {"priority": job.priority, "deliveries": job.deliveries}
    columns: Cells = {
        "seq": str(job.seq),
        "put": formatting.moment(job.ts),
        "priority": str(job.priority),
        "deliveries": str(job.deliveries),
        **_columns(job),
    }
    return Made(json | _fields(job), columns)


def _fields(job: Job | Waiting) -> Json:
    json: Json = {}
    formatting.put_bytes(json, "key", job.key)
    json["tag"] = job.tag
    formatting.put_bytes(json, "data", job.data)
    return json


def _columns(job: Job | Waiting) -> dict[str, str | None]:
    return {
        "key": None if job.key is None else formatting.plain(job.key),
        "tag": None if job.tag is None else formatting.plain(job.tag),
        "data": formatting.plain(job.data),
    }
