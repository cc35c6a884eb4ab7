"""Rules of a metrics view: how long a measurement is kept, and what is made of it before.

A rule is a record of the log, like everything that the view knows. How far it is, too: the points
that downsampling makes are appended together with how far it has come (``Progress``). So after a
crash either both are there or none, and no window is made twice or left out.

A point that comes late, for a window that is done, makes the window *stale*: it is made again, and
its new points replace the old ones. A floor never rises above what is not done, nor into the middle
of a window, so every window is made of all its points.
"""

from __future__ import annotations

import math

import msgspec

from strandline.errors import Invalid
from strandline.views.metrics.aggregates import Aggregate, parse_aggregate
from strandline.views.metrics.names import check_name

STALE_MAX = 64
"""Stale windows that are made again at once."""


class Keep(msgspec.Struct, frozen=True, kw_only=True, tag="keep"):
    """Points of a measurement go when they are older than this."""

    measurement: str
    keep_ns: int


class Downsample(msgspec.Struct, frozen=True, kw_only=True, tag="downsample"):
    """Points of a measurement are made into fewer points of another, one for each window."""

    source: str
    into: str
    window_ns: int
    aggregates: tuple[str, ...]
    by: tuple[str, ...] | None = None
    """Tags that are left; None leaves all, so that every series is made by itself."""
    delay_ns: int = 0
    """How long after its end a window is made. What comes later still counts, for more work."""


class Removed(msgspec.Struct, frozen=True, kw_only=True, tag="removed"):
    """There is no such rule any more."""

    kind: str
    measurement: str
    """That of a Keep, or what a Downsample makes."""


Rule = Keep | Downsample


class Progress(msgspec.Struct, frozen=True, array_like=True):
    """What points are the outcome of, beside them in their record."""

    into: str
    version: int
    """The seq of the rule."""
    until: int
    """Windows before this are made."""
    redone: list[int] = []
    """Stale windows, by their beginning, that are made again."""


class Standing(msgspec.Struct):
    """A rule, and how far it is."""

    rule: Rule
    seq: int
    until: int | None = None
    progress_seq: int = 0
    stale: set[int] = set()

    @property
    def name(self) -> tuple[str, str]:
        return name_of(self.rule)


def name_of(rule: Rule | Removed) -> tuple[str, str]:
    """What a newer rule takes the place of."""
    if isinstance(rule, Removed):
        return rule.kind, rule.measurement
    return ("keep", rule.measurement) if isinstance(rule, Keep) else ("downsample", rule.into)


def describe(rule: Rule) -> str:
    """Which rule it is, in words."""
    if isinstance(rule, Keep):
        return f"the rule that keeps {rule.measurement!r}"
    return f"the rule that makes {rule.into!r} of {rule.source!r}"


def checked(rule: Rule, others: list[Rule]) -> Rule:
    """The rule itself, when it can be kept beside the others."""
    if isinstance(rule, Keep):
        check_name(rule.measurement, "a measurement")
        if rule.keep_ns <= 0:
            raise Invalid(f"points cannot be kept for {rule.keep_ns} ns: give more than 0")
        return rule
    check_name(rule.source, "a measurement")
    check_name(rule.into, "a measurement")
    if rule.window_ns <= 0 or rule.delay_ns < 0:
        raise Invalid("a window is longer than 0, and the delay is not below 0")
    if not rule.aggregates or len(set(rule.aggregates)) < len(rule.aggregates):
        raise Invalid("name at least one aggregate, each once")
    for name in rule.aggregates:
        parse_aggregate(name)
    for tag in rule.by or ():
        check_name(tag, "a tag")
    _check_no_circle(rule, others)
    return rule


def aggregates_of(rule: Downsample) -> list[Aggregate]:
    return [parse_aggregate(name) for name in rule.aggregates]


def field_made(field: str, aggregate: Aggregate) -> str:
    """The field that has a field's aggregate: load, avg -> load_avg."""
    return f"{field}_{aggregate.label}"


def aligned(floor: int, rules: list[Downsample]) -> int:
    """The highest floor, not above this, that no window of the rules lies across."""
    step = math.lcm(*(rule.window_ns for rule in rules))
    return floor // step * step


def _check_no_circle(rule: Downsample, others: list[Rule]) -> None:
    makes = {
        other.into: other.source
        for other in others
        if isinstance(other, Downsample) and other.into != rule.into
    }
    source: str | None = rule.source
    while source is not None:
        if source == rule.into:
            raise Invalid(f"{rule.into!r} would be made of itself: name another measurement")
        source = makes.get(source)
