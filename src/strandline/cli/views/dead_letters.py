"""``strandline queue dead``: jobs that were given out too often. Listed, put back, thrown away."""

from __future__ import annotations

import dataclasses
import os
import sys
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from strandline.cli.input.confirm import Yes, ask
from strandline.cli.open_view import Looking, changing, queue_of
from strandline.cli.options import VIEW_TARGET, Flag, ViewTarget, microseconds
from strandline.cli.output import formatting
from strandline.cli.output.formatting import Json, Made, Row, fact_row, row_of
from strandline.cli.output.output import output
from strandline.errors import Invalid, UnknownTopic
from strandline.views.queue.dead_letter_codec import DeadLetter, Where
from strandline.views.queue.dead_letter_filter import Meant as Filter

if TYPE_CHECKING:  # views are loaded when one is asked for
    from strandline.views.queue.queue import Queue

app = App(name="dead", help="List, redrive and purge the dead letters of a queue.")

Name = Annotated[str, Parameter(metavar="NAME", help="Name of the queue, and of its topic.")]


@Parameter(name="*", group="Which dead letters")
@dataclasses.dataclass(frozen=True, kw_only=True)
class Meant:
    """Which dead letters are meant: those that are all of this; without any, all."""

    seq: Annotated[
        list[int] | None,
        Parameter(negative="", help="The one of this seq; several with an option for each."),
    ] = None
    key: Annotated[str | None, Parameter(help="Those with this key.")] = None
    tag: Annotated[
        str | None, Parameter(help="Those with this tag; `eu*` for every tag that begins so.")
    ] = None
    group: Annotated[str | None, Parameter(help="Those of this group.")] = None
    contains: Annotated[str | None, Parameter(help="Those with this text in their data.")] = None
    before: Annotated[
        str | None,
        Parameter(help="Those given up before this time: 2026-03-28T14:05:00Z, or microseconds."),
    ] = None

    def where(self) -> Where | None:
        """The same as a question to a dead letter; None for all."""
        return Filter(
            seqs=frozenset(self.seq) if self.seq else None,
            key=None if self.key is None else os.fsencode(self.key),
            tag=self.tag,
            group=None if self.group is None else os.fsencode(self.group),
            contains=None if self.contains is None else os.fsencode(self.contains),
            before_us=None if self.before is None else microseconds(self.before),
        ).where()


ALL = Meant()


@app.command(name="ls", alias="list")
def list_letters(
    name: Name, /, *, after: int = 0, limit: int = 100, target: ViewTarget = VIEW_TARGET
) -> None:
    """Print dead letters, oldest first.

    Parameters
    ----------
    after
        The cursor: print what comes behind this seq.
    limit
        Print at most so many.
    """
    if after < 0 or limit < 1:
        raise Invalid("--after is 0 or a seq, --limit is 1 or more")
    out = output(target.output)
    with Looking(target, "queue", name, queue_of) as looking:
        found = looking.ask(lambda queue: _letters(queue, after, limit + 1))
    letters = found[:limit]
    out.rows([_letter_row(letter) for letter in letters])
    out.end()
    if len(found) > limit and target.output == "table":
        sys.stdout.flush()
        print(f"more behind: --after {letters[-1].seq}", file=sys.stderr)


@app.command
def redrive(
    name: Name,
    /,
    *,
    limit: int | None = None,
    dry_run: Flag = False,
    meant: Meant = ALL,
    target: ViewTarget = VIEW_TARGET,
) -> None:
    """Make jobs of dead letters again: all, or those that are meant.

    Parameters
    ----------
    limit
        At most so many, the oldest.
    dry_run
        Only say how many it would be.
    """
    if limit is not None and limit < 1:
        raise Invalid("--limit is 1 or more")
    where = meant.where()
    with changing(target, "queue", name, queue_of) as queue:
        done = queue.dead.redrive(where, limit=limit, dry_run=dry_run)
        output(target.output).one(row_of(done, dry_run=dry_run))


@app.command
def purge(
    name: Name,
    /,
    *,
    dry_run: Flag = False,
    yes: Yes = False,
    meant: Meant = ALL,
    target: ViewTarget = VIEW_TARGET,
) -> None:
    """Throw dead letters away: all, or those that are meant. It asks first.

    Parameters
    ----------
    dry_run
        Only say how many it would be.
    """
    where = meant.where()
    with changing(target, "queue", name, queue_of) as queue:
        doomed = queue.dead.purge(where, dry_run=True)
        if doomed and not dry_run:
            if not yes:
                ask(f"Throw {doomed} dead letters of {name!r} away?")
            doomed = queue.dead.purge(where)
        done = fact_row({"name": name, "purged": doomed, "dry_run": dry_run})
        output(target.output).one(done)


def _letters(queue: Queue, after: int, limit: int) -> list[DeadLetter]:
    try:
        return queue.dead.letters(after=after, limit=limit)
    except UnknownTopic:
        return []  # their topic is made with the first


def _letter_row(letter: DeadLetter) -> Row:
    json: Json = {"seq": letter.seq, "ts": letter.ts, "reason": letter.reason}
    json |= {"job_seq": letter.job_seq, "put_ts": letter.put_ts}
    json |= {"deliveries": letter.deliveries, "priority": letter.priority}
    formatting.put_bytes(json, "group", letter.group or None)
    formatting.put_bytes(json, "key", letter.key)
    json["tag"] = letter.tag
    formatting.put_bytes(json, "data", letter.data)
    return Made(
        json,
        {
            "seq": str(letter.seq),
            "given up": formatting.moment(letter.ts),
            "job": str(letter.job_seq),
            "deliveries": str(letter.deliveries),
            "group": formatting.plain(letter.group) if letter.group else None,
            "key": None if letter.key is None else formatting.plain(letter.key),
            "tag": None if letter.tag is None else formatting.plain(letter.tag),
            "data": formatting.plain(letter.data),
        },
    )
