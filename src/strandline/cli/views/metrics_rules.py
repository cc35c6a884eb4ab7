"""``strandline metrics rule``: how long measurements are kept, and what is made of them before."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import App, Parameter

from strandline.cli.open_view import Looking, changing, metrics_of, putting
from strandline.cli.options import VIEW_TARGET, Flag, ViewTarget
from strandline.cli.output import formatting
from strandline.cli.output.formatting import Json, Made, Row
from strandline.cli.output.output import output
from strandline.errors import NotFound
from strandline.views.metrics.rules import Keep, Rule, name_of

app = App(name="rule", help="List, add and remove rules of retention and downsampling.")

Name = Annotated[str, Parameter(metavar="NAME", help="Name of the view, and of its topic.")]
Measurement = Annotated[str, Parameter(metavar="MEASUREMENT", help="Such as cpu.")]

_UNITS = (("w", 604_800), ("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))


@app.command(name="ls", alias="list")
def list_rules(name: Name, /, *, target: ViewTarget = VIEW_TARGET) -> None:
    """Print the rules that hold."""
    with Looking(target, "metrics", name, metrics_of) as looking:
        found = looking.ask(lambda metrics: metrics.rules())
    out = output(target.output)
    out.rows([_row(rule) for rule in found])
    out.end()


@app.command
def keep(
    name: Name, measurement: Measurement, duration: str, /, *, target: ViewTarget = VIEW_TARGET
) -> None:
    """Let points of a measurement go when they are older than this, and refuse later ones.

    Parameters
    ----------
    duration
        How long they are kept: 12h, 30d, 52w.
    """
    with putting(target, "metrics", name, metrics_of) as metrics:
        metrics.keep(measurement, duration)
        _tell(target, metrics.rules(), "keep", measurement)


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
    """Make one point of another measurement of each window: load becomes load_avg.

    Parameters
    ----------
    into
        The measurement that is made.
    window
        How long a window is: 1m, 1h.
    aggregate
        What is made of a window: avg, sum, count, min, max, first, last, percentile(95), rate.
        May be given several times.
    by
        Tags that are left; may be given several times. Without it every series is by itself.
    together
        Leave no tag: all series together.
    delay
        How long after its end a window is made; what comes later makes it again.
    """
    groups = () if together else by
    with putting(target, "metrics", name, metrics_of) as metrics:
        metrics.downsample(
            source,
            into=into,
            window=window,
            aggregates=aggregate,
            by="*" if groups is None else groups,
            delay=0 if delay is None else delay,
        )
        _tell(target, metrics.rules(), "downsample", into)


@app.command
def remove(
    name: Name,
    kind: Literal["keep", "downsample"],
    measurement: Measurement,
    /,
    *,
    target: ViewTarget = VIEW_TARGET,
) -> None:
    """Remove a rule; what it has made or let go stays so.

    Parameters
    ----------
    kind
        What the rule does.
    measurement
        The one that is kept, or that is made.
    """
    with changing(target, "metrics", name, metrics_of) as metrics:
        found = _find(metrics.rules(), kind, measurement)
        if found is None:
            error = NotFound(f"{name!r} has no rule of kind {kind} for {measurement!r}")
            error.add_note(f"`strandline metrics rule ls {name}` shows the rules")
            raise error
        if kind == "keep":
            metrics.keep_all(measurement)
        else:
            metrics.stop_downsampling(measurement)
        output(target.output).one(_row(found))


def _tell(target: ViewTarget, rules: list[Rule], kind: str, measurement: str) -> None:
    found = _find(rules, kind, measurement)
    assert found is not None, "it was just added"
    output(target.output).one(_row(found))


def _find(rules: list[Rule], kind: str, measurement: str) -> Rule | None:
    return next((rule for rule in rules if name_of(rule) == (kind, measurement)), None)


def _row(rule: Rule) -> Row:
    if isinstance(rule, Keep):
        kept = f"kept for {_duration(rule.keep_ns)}"
        return Made(
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
    told = f"{', '.join(rule.aggregates)} of {rule.source}, {_duration(rule.window_ns)}, {by}"
    if rule.delay_ns:
        told += f", {_duration(rule.delay_ns)} later"
    return Made(
        json,
        {
            "measurement": formatting.plain(rule.into),
            "kind": "downsample",
            "rule": formatting.plain(told),
        },
    )


def _duration(size_ns: int) -> str:
    """As one would write it, in the largest unit that it is a whole number of."""
    seconds, rest = divmod(size_ns, 1_000_000_000)
    if rest:
        return f"{size_ns}ns"
    return next(f"{seconds // size}{unit}" for unit, size in _UNITS if seconds % size == 0)
