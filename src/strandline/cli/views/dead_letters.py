"""``strandline queue dead``: lists, redrives and purges jobs that were delivered too often."""

from __future__ import annotations

import dataclasses
import os
import sys
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from strandline.cli.input.confirm import Yes, confirm
from strandline.cli.open_view import ReadOnlyView, open_existing_view, queue_of
from strandline.cli.options import VIEW_TARGET, Flag, ViewTarget, microseconds
from strandline.cli.output import formatting
from strandline.cli.output.formatting import Json, OutputRow, PreparedRow, fact_row, row_of
from strandline.cli.output.output import output
from strandline.errors import Invalid, UnknownTopic
from strandline.views.queue.dead_letter_codec import DeadLetter, DeadLetterPredicate
from strandline.views.queue.dead_letter_filter import DeadLetterFilter as Filter

if TYPE_CHECKING:  # a view is imported when it is opened
    from strandline.views.queue.queue import Queue

app = App(name="dead", help="List, redrive and purge the dead letters of a queue.")

Name = Annotated[str, Parameter(metavar="NAME", help="Name of the queue, and of its topic.")]


@Parameter(name="*", group="Which dead letters")
@dataclasses.dataclass(frozen=True, kw_only=True)
class DeadLetterOptions:
    """A filter of dead letters: those that match every option; all without options."""

    seq: Annotated[
        list[int] | None,
        Parameter(negative="", help="The dead letter of this seq; repeatable."),
    ] = None
    key: Annotated[str | None, Parameter(help="Those with this key.")] = None
    tag: Annotated[
        str | None, Parameter(help="Those with this tag; `eu*` for tags with this prefix.")
    ] = None
    group: Annotated[str | None, Parameter(help="Those of this group.")] = None
    contains: Annotated[str | None, Parameter(help="Those with this text in their data.")] = None
    before: Annotated[
        str | None,
        Parameter(help="Those given up before this time: 2026-03-28T14:05:00Z, or microseconds."),
    ] = None

    def predicate(self) -> DeadLetterPredicate | None:
        """The filter as a predicate; None for all."""
        return Filter(
            seqs=frozenset(self.seq) if self.seq else None,
            key=None if self.key is None else os.fsencode(self.key),
            tag=self.tag,
            group=None if self.group is None else os.fsencode(self.group),
            contains=None if self.contains is None else os.fsencode(self.contains),
            before_us=None if self.before is None else microseconds(self.before),
        ).predicate()


ALL_DEAD_LETTERS = DeadLetterOptions()


@app.command(name="ls", alias="list")
def list_letters(
    name: Name, /, *, after: int = 0, limit: int = 100, target: ViewTarget = VIEW_TARGET
) -> None:
    """Print dead letters, oldest first.

    Parameters
    ----------
    after
        The cursor: print the dead letters after this seq.
    limit
        Print at most this many.
    """
    if after < 0 or limit < 1:
        raise Invalid("--after is 0 or a seq, --limit is 1 or more")
    out = output(target.output)
    with ReadOnlyView(target, "queue", name, queue_of) as view:
        page = view.run(lambda queue: _letters(queue, after, limit + 1))
    letters = page[:limit]
    out.rows([_letter_row(letter) for letter in letters])
    out.end()
    if len(page) > limit and target.output == "table":
        sys.stdout.flush()
        print(f"more dead letters: --after {letters[-1].seq}", file=sys.stderr)


@app.command
def redrive(
    name: Name,
    /,
    *,
    limit: int | None = None,
    dry_run: Flag = False,
    options: DeadLetterOptions = ALL_DEAD_LETTERS,
    target: ViewTarget = VIEW_TARGET,
) -> None:
    """Put dead letters back into the queue: all, or those that match.

    Parameters
    ----------
    limit
        At most this many, oldest first.
    dry_run
        Only report how many match.
    """
    if limit is not None and limit < 1:
        raise Invalid("--limit is 1 or more")
    where = options.predicate()
    with open_existing_view(target, "queue", name, queue_of) as queue:
        result = queue.dead.redrive(where, limit=limit, dry_run=dry_run)
        output(target.output).one(row_of(result, dry_run=dry_run))


@app.command
def purge(
    name: Name,
    /,
    *,
    dry_run: Flag = False,
    yes: Yes = False,
    options: DeadLetterOptions = ALL_DEAD_LETTERS,
    target: ViewTarget = VIEW_TARGET,
) -> None:
    """Delete dead letters: all, or those that match. It asks first.

    Parameters
    ----------
    dry_run
        Only report how many match.
    """
    where = options.predicate()
    with open_existing_view(target, "queue", name, queue_of) as queue:
        count = queue.dead.purge(where, dry_run=True)
        if count and not dry_run:
            if not yes:
                confirm(f"Delete {count} dead letters of {name!r}?")
            count = queue.dead.purge(where)
        result = fact_row({"name": name, "purged": count, "dry_run": dry_run})
        output(target.output).one(result)


def _letters(queue: Queue, after: int, limit: int) -> list[DeadLetter]:
    try:
        return queue.dead.letters(after=after, limit=limit)
    except UnknownTopic:
        return []  # the topic is created with the first dead letter


def _letter_row(letter: DeadLetter) -> OutputRow:
    json: Json = {"seq": letter.seq, "ts": letter.ts, "reason": letter.reason}
    json |= {"job_seq": letter.job_seq, "put_ts": letter.put_ts}
    json |= {"deliveries": letter.deliveries, "priority": letter.priority}
    formatting.put_bytes(json, "group", letter.group or None)
    formatting.put_bytes(json, "key", letter.key)
    json["tag"] = letter.tag
    formatting.put_bytes(json, "data", letter.data)
    return PreparedRow(
        json,
        {
            "seq": str(letter.seq),
            "given up": formatting.time_text(letter.ts),
            "job": str(letter.job_seq),
            "deliveries": str(letter.deliveries),
            "group": formatting.plain(letter.group) if letter.group else None,
            "key": None if letter.key is None else formatting.plain(letter.key),
            "tag": None if letter.tag is None else formatting.plain(letter.tag),
            "data": formatting.plain(letter.data),
        },
    )
