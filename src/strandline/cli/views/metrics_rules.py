"""``strandline metrics rule``: retention and downsampling of measurements."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import App, Parameter

from strandline.cli.open_view import (
    ReadOnlyView,
    metrics_of,
    open_existing_view,
    open_or_create_view,
)
from strandline.cli.options import VIEW_TARGET, Flag, ViewTarget
from strandline.cli.output import formatting
from strandline.cli.output.formatting import Json, OutputRow, PreparedRow
from strandline.cli.output.output import output
from strandline.errors import NotFound
from strandline.views.metrics.rules import RetentionRule, Rule, name_of

app = App(name="rule", help="List, add and remove rules of retention and downsampling.")

Name = Annotated[str, Parameter(metavar="NAME", help="Name of the view, and of its topic.")]
Measurement = Annotated[str, Parameter(metavar="MEASUREMENT", help="The measurement, as in cpu.")]

_UNITS = (("w", 604_800), ("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))


@app.command(name="ls", alias="list")
def list_rules(name: Name, /, *, target: ViewTarget = VIEW_TARGET) -> None:
    """Print the rules of a view."""
    with ReadOnlyView(target, "metrics", name, metrics_of) as view:
        rules = view.run(lambda metrics: metrics.rules())
    out = output(target.output)
    out.rows([_row(rule) for rule in rules])
    out.end()


@app.command
def keep(
    name: Name, measurement: Measurement, duration: str, /, *, target: ViewTarget = VIEW_TARGET
) -> None:
    """Set the retention of a measurement: older points are deleted, and rejected on writes.

    Parameters
    ----------
    duration
        Maximum age of a point: 12h, 30d, 52w.
    """
    with open_or_create_view(target, "metrics", name, metrics_of) as metrics:
        metrics.keep(measurement, duration)
        _print_rule(target, metrics.rules(), "keep", measurement)


@app.command
def downsample(
    name: Name,
    source: Measurement,
    /,
    *,
    into: str,
    window: str,
    aggregate: tuple[str, ...] = ("avg",),
    by: tuple[str, ...] | None = None,
    together: Flag = False,
    delay: str | None = None,
    target: ViewTarget = VIEW_TARGET,
) -> None:
    """Compute one point of another measurement from each window: load becomes load_avg.

    Parameters
    ----------
    into
        The measurement of the results.
    window
        Length of a window: 1m, 1h.
    aggregate
        Aggregates of a window: avg, sum, count, min, max, first, last, percentile(95), rate.
        Repeatable.
    by
        Tags to keep; repeatable. Default: one result for each series.
    together
        Keep no tag: one result of all series.
    delay
        Time from the end of a window to its computation; later points compute it again.
    """
    groups = () if together else by
    with open_or_create_view(target, "metrics", name, metrics_of) as metrics:
        metrics.downsample(
            source,
            into=into,
            window=window,
            aggregates=aggregate,
            by="*" if groups is None else groups,
            delay=0 if delay is None else delay,
        )
        _print_rule(target, metrics.rules(), "downsample", into)


@app.command
def remove(
    name: Name,
    kind: Literal["keep", "downsample"],
    measurement: Measurement,
    /,
    *,
    target: ViewTarget = VIEW_TARGET,
) -> None:
    """Remove a rule; its computed and deleted points stay so.

    Parameters
    ----------
    kind
        Kind of the rule.
    measurement
        The measurement that is kept, or that holds the results.
    """
    with open_existing_view(target, "metrics", name, metrics_of) as metrics:
        rule = _find(metrics.rules(), kind, measurement)
        if rule is None:
            error = NotFound(f"{name!r} has no rule of kind {kind} for {measurement!r}")
            error.add_note(f"`strandline metrics rule ls {name}` lists the rules")
            raise error
        if kind == "keep":
            metrics.keep_all(measurement)
        else:
            metrics.stop_downsampling(measurement)
        output(target.output).one(_row(rule))


def _print_rule(target: ViewTarget, rules: list[Rule], kind: str, measurement: str) -> None:
    rule = _find(rules, kind, measurement)
    assert rule is not None, "it was just added"
    output(target.output).one(_row(rule))


def _find(rules: list[Rule], kind: str, measurement: str) -> Rule | None:
    return next((rule for rule in rules if name_of(rule) == (kind, measurement)), None)


def _row(rule: Rule) -> OutputRow:
    if isinstance(rule, RetentionRule):
        kept = f"kept for {_duration(rule.keep_ns)}"
        return PreparedRow(
            {"kind": "keep", "measurement": rule.measurement, "keep_ns": rule.keep_ns},
            {"measurement": formatting.plain(rule.measurement), "kind": "keep", "rule": kept},
        )
    json: Json = {
        "kind": "downsample",
        "measurement": rule.into,
        "source": rule.source,
        "window_ns": rule.window_ns,
        "aggregates": list(rule.aggregates),
        "by": None if rule.by is None else list(rule.by),
        "delay_ns": rule.delay_ns,
    }
    by = "each series" if rule.by is None else f"by {', '.join(rule.by)}" if rule.by else "together"
    text = f"{', '.join(rule.aggregates)} of {rule.source}, {_duration(rule.window_ns)}, {by}"
    if rule.delay_ns:
        text += f", {_duration(rule.delay_ns)} later"
    return PreparedRow(
        json,
        {
            "measurement": formatting.plain(rule.into),
            "kind": "downsample",
            "rule": formatting.plain(text),
        },
    )


def _duration(size_ns: int) -> str:
    """A duration as text, in the largest unit that divides it."""
    seconds, rest = divmod(size_ns, 1_000_000_000)
    if rest:
        return f"{size_ns}ns"
    return next(f"{seconds // size}{unit}" for unit, size in _UNITS if seconds % size == 0)
