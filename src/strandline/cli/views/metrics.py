"""``strandline metrics``: measurements, written as line protocol and asked in the pipe language."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from strandline.cli.input.input import lines_of, opened_file
from strandline.cli.open_view import Looking, metrics_of, putting
from strandline.cli.options import VIEW_TARGET, ViewTarget
from strandline.cli.output import formatting
from strandline.cli.output.formatting import Json, Made, Row, fact_row
from strandline.cli.output.output import output, print_report
from strandline.cli.views import metrics_rules
from strandline.errors import Invalid, NotFound

if TYPE_CHECKING:  # views are loaded when one is asked for
    from strandline.views.metrics.metrics import Metrics
    from strandline.views.metrics.query.result import Answer
    from strandline.views.metrics.report import MeasurementCardinality

_BATCH = 10_000
_PAGE = 1000

app = App(name="metrics")

app.command(metrics_rules.app)

Name = Annotated[str, Parameter(metavar="NAME", help="Name of the view, and of its topic.")]


@app.command
def write(
    name: Name,
    file: str | None = None,
    /,
    *,
    precision: Literal["ns", "us", "ms", "s"] = "ns",
    batch: int = _BATCH,
    target: ViewTarget = VIEW_TARGET,
) -> None:
    """Write line protocol, and make the view with its topic and store if there are none.

    A line is `cpu,host=web-1 load=0.7 1700000000000000000`; without a time it is of now.

    Parameters
    ----------
    file
        File with the lines. Without it, those of a piped stdin are taken.
    precision
        What the times of the lines count.
    batch
        Lines that are written together, or not at all.
    """
    if batch < 1:
        raise Invalid(f"--batch {batch} cannot be: it is 1 or more")
    with _opened(file) as descriptor, putting(target, "metrics", name, metrics_of) as metrics:
        done: Json = {"name": name, "lines": 0, "last_seq": None}
        written = 0
        try:
            for lines in lines_of(descriptor, batch):
                with _place_told(written):
                    appended = metrics.write_lines(b"\n".join(lines), precision=precision)
                written += len(lines)
                done["lines"] = written
                done["last_seq"] = done["last_seq"] if appended is None else appended.last_seq
        except BaseException:
            if written:
                output(target.output).one(fact_row(done))
            raise
        output(target.output).one(fact_row(done))


@app.command
def query(name: Name, text: str, /, *, target: ViewTarget = VIEW_TARGET) -> None:
    """Print the answer to a query in the pipe language.

    Such as `cpu{host=~"^web"}[1h] | window(5m) | avg by (host)`.

    Parameters
    ----------
    text
        The query.
    """
    out = output(target.output)
    with _looking(name, target) as looking:
        answer = looking.ask(lambda metrics: _answer(metrics, text))
    for rows in _rows(answer):
        out.rows(rows)
    out.end()


@app.command
def cardinality(name: Name, /, *, target: ViewTarget = VIEW_TARGET) -> None:
    """Print how many series there are, and which tags make them many."""
    with _looking(name, target) as looking:
        found = looking.ask(lambda metrics: metrics.cardinality())
    by_size = sorted(found.measurements.items(), key=lambda item: -item[1].series)
    facts = {"series": str(found.series), "measurements": str(len(by_size))}
    rows = [_measurement_row(*each) for each in by_size]
    print_report(target.output, formatting.row_of(found, facts), {"measurements": rows})


def _looking(name: str, target: ViewTarget) -> Looking[Metrics]:
    return Looking(target, "metrics", name, metrics_of)


@contextlib.contextmanager
def _opened(file: str | None) -> Iterator[int]:
    """The descriptor to read lines from."""
    if file is None:
        if sys.stdin.isatty():
            raise Invalid("nothing to write: name a file with lines, or pipe them to stdin")
        yield sys.stdin.fileno()
        return
    with opened_file(file) as descriptor:
        yield descriptor


@contextlib.contextmanager
def _place_told(before: int) -> Iterator[None]:
    """An error counts the lines of its batch: say where that begins, and what is written."""
    try:
        yield
    except Invalid as error:
        if before:
            error.add_note(
                f"its line 1 is line {before + 1} of the input; the lines before are written"
            )
        else:
            error.add_note("nothing was written; a line is `cpu,host=web-1 load=0.7 TIME`")
        raise


def _answer(metrics: Metrics, text: str) -> Answer:
    try:
        return metrics.query(text)
    except NotFound as error:
        error.add_note(f"`strandline metrics cardinality {metrics.name}` shows what there is")
        raise
    except Invalid as error:
        told = Invalid(str(error).partition("\n")[0])  # the rest points to the place
        told.add_note('a query is such as `cpu{host="a"}[1h] | window(5m) | avg by (host)`')
        raise told from error


def _rows(answer: Answer) -> Iterator[list[Row]]:
    """The values, some at a time; every tag that a group has is a column."""
    tags = sorted({tag for group in answer.groups for tag in group})
    page: list[Row] = []
    for found in answer:
        page.append(_value_row(answer.name, tags, found.tags, found.at, found.value))
        if len(page) == _PAGE:
            yield page
            page = []
    if page:
        yield page


def _value_row(
    name: str, columns: Sequence[str], tags: dict[str, str], at: int, value: float
) -> Row:
    told = {f"tag {tag}" if tag in ("time", name) else tag: tags.get(tag) for tag in columns}
    return Made(
        {"tags": tags, "at": at, "value": value},
        {
            **{tag: None if it is None else formatting.plain(it) for tag, it in told.items()},
            "time": formatting.moment(at // 1000),
            formatting.plain(name): formatting.text(value)
            if isinstance(value, bool)
            else str(value),
        },
    )


def _measurement_row(name: str, found: MeasurementCardinality) -> Row:
    return Made(
        {},
        {
            "measurement": formatting.plain(name),
            "series": str(found.series),
            "fields": str(found.fields),
            "values of tags": formatting.text(found.tags),
        },
    )
