"""``strandline metrics``: writes line protocol and queries it in the pipe language."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from strandline.cli.input.input import lines_of, open_input
from strandline.cli.open_view import ReadOnlyView, metrics_of, open_or_create_view
from strandline.cli.options import VIEW_TARGET, ViewTarget
from strandline.cli.output import formatting
from strandline.cli.output.formatting import Json, OutputRow, PreparedRow, fact_row
from strandline.cli.output.output import output, print_report
from strandline.cli.views import metrics_rules
from strandline.errors import Invalid, NotFound

if TYPE_CHECKING:  # a view is imported when it is opened
    from strandline.views.metrics.metrics import Metrics
    from strandline.views.metrics.query.result import MetricsResult
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
    """Write line protocol, and create the view with its topic and store if they do not exist.

    A line is `cpu,host=web-1 load=0.7 1700000000000000000`; without a time it gets the current one.

    Parameters
    ----------
    file
        File with the lines. Default: a piped stdin.
    precision
        Unit of the times in the lines.
    batch
        Lines that are written together, or not at all.
    """
    if batch < 1:
        raise Invalid(f"--batch {batch} is not possible: it is 1 or more")
    with (
        _opened(file) as descriptor,
        open_or_create_view(target, "metrics", name, metrics_of) as metrics,
    ):
        summary: Json = {"name": name, "lines": 0, "last_seq": None}
        written = 0
        try:
            for lines in lines_of(descriptor, batch):
                with _line_hint(written):
                    appended = metrics.write_lines(b"\n".join(lines), precision=precision)
                written += len(lines)
                summary["lines"] = written
                summary["last_seq"] = summary["last_seq"] if appended is None else appended.last_seq
        except BaseException:
            if written:
                output(target.output).one(fact_row(summary))
            raise
        output(target.output).one(fact_row(summary))


@app.command
def query(name: Name, text: str, /, *, target: ViewTarget = VIEW_TARGET) -> None:
    """Print the result of a query in the pipe language.

    Example: `cpu{host=~"^web"}[1h] | window(5m) | avg by (host)`.

    Parameters
    ----------
    text
        The query.
    """
    out = output(target.output)
    with _view(name, target) as view:
        result = view.run(lambda metrics: _run_query(metrics, text))
    for rows in _rows(result):
        out.rows(rows)
    out.end()


@app.command
def cardinality(name: Name, /, *, target: ViewTarget = VIEW_TARGET) -> None:
    """Print the number of series, and the tags with the most values."""
    with _view(name, target) as view:
        report = view.run(lambda metrics: metrics.cardinality())
    by_size = sorted(report.measurements.items(), key=lambda item: -item[1].series)
    facts = {"series": str(report.series), "measurements": str(len(by_size))}
    rows = [_measurement_row(*each) for each in by_size]
    print_report(target.output, formatting.row_of(report, facts), {"measurements": rows})


def _view(name: str, target: ViewTarget) -> ReadOnlyView[Metrics]:
    return ReadOnlyView(target, "metrics", name, metrics_of)


@contextlib.contextmanager
def _opened(file: str | None) -> Iterator[int]:
    """The descriptor to read lines from."""
    if file is None:
        if sys.stdin.isatty():
            raise Invalid("nothing to write: name a file with lines, or pipe them to stdin")
        yield sys.stdin.fileno()
        return
    with open_input(file) as descriptor:
        yield descriptor


@contextlib.contextmanager
def _line_hint(before: int) -> Iterator[None]:
    """Add to an error, which counts lines within its batch, where the batch starts in the input."""
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


def _run_query(metrics: Metrics, text: str) -> MetricsResult:
    try:
        return metrics.query(text)
    except NotFound as error:
        error.add_note(f"`strandline metrics cardinality {metrics.name}` lists the measurements")
        raise
    except Invalid as error:
        wrong = Invalid(str(error).partition("\n")[0])  # the other lines point to the position
        wrong.add_note('a query looks like `cpu{host="a"}[1h] | window(5m) | avg by (host)`')
        raise wrong from error


def _rows(result: MetricsResult) -> Iterator[list[OutputRow]]:
    """The values in pages; every tag of any group is a column."""
    tags = sorted({tag for group in result.groups for tag in group})
    page: list[OutputRow] = []
    for value in result:
        page.append(_value_row(result.name, tags, value.tags, value.at, value.value))
        if len(page) == _PAGE:
            yield page
            page = []
    if page:
        yield page


def _value_row(
    name: str, columns: Sequence[str], tags: dict[str, str], at: int, value: float
) -> OutputRow:
    tag_cells = {f"tag {tag}" if tag in ("time", name) else tag: tags.get(tag) for tag in columns}
    return PreparedRow(
        {"tags": tags, "at": at, "value": value},
        {
            **{tag: None if it is None else formatting.plain(it) for tag, it in tag_cells.items()},
            "time": formatting.time_text(at // 1000),
            formatting.plain(name): formatting.text(value)
            if isinstance(value, bool)
            else str(value),
        },
    )


def _measurement_row(name: str, measurement: MeasurementCardinality) -> OutputRow:
    return PreparedRow(
        {},
        {
            "measurement": formatting.plain(name),
            "series": str(measurement.series),
            "fields": str(measurement.fields),
            "values of tags": formatting.text(measurement.tags),
        },
    )
