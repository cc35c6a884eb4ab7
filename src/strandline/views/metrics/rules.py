"""Rules of a metrics view: how long a measurement is kept, and how it is downsampled.

A rule is a record of the log, like all state of the view. So is its progress: the points that
downsampling computes are appended together with it. So after a crash either both are there or none,
and no window is computed twice or left out.

A late point for a window that was computed makes the window *stale*: it is recomputed, and its new
points replace the old ones. A floor never rises above windows that are not computed, nor into the
middle of a window, so every window is computed from all its points.
"""

from __future__ import annotations

import math

import msgspec

from strandline.errors import Invalid
from strandline.views.metrics.aggregates import AggregateFunction, parse_aggregate
from strandline.views.metrics.names import check_name

STALE_MAX = 64
"""The most stale windows that one step recomputes."""


class RetentionRule(msgspec.Struct, frozen=True, kw_only=True, tag="keep"):
    """Points of a measurement are removed when they are older than this."""

    measurement: str
    keep_ns: int


class DownsamplingRule(msgspec.Struct, frozen=True, kw_only=True, tag="downsample"):
    """Points of a measurement are aggregated into another, one point for each window."""

    source: str
    into: str
    window_ns: int
    aggregates: tuple[str, ...]
    by: tuple[str, ...] | None = None
    """Tags to group by; None keeps all, so that every series is aggregated by itself."""
    delay_ns: int = 0
    """How long after its end a window is computed. Later points cause a recomputation."""


class RuleRemoval(msgspec.Struct, frozen=True, kw_only=True, tag="removed"):
    """Removes a rule."""

    kind: str
    measurement: str
    """The measurement of a Keep, or the target of a Downsample."""


Rule = RetentionRule | DownsamplingRule


class Progress(msgspec.Struct, frozen=True, array_like=True):
    """The progress of a downsampling rule, stored in the record of the points it computed."""

    into: str
    version: int
    """The seq of the rule."""
    until: int
    """Windows before this time are computed."""
    redone: list[int] = []
    """The starts of stale windows that were recomputed."""


class RuleState(msgspec.Struct):
    """A rule and its progress."""

    rule: Rule
    seq: int
    until: int | None = None
    progress_seq: int = 0
    stale: set[int] = set()

    @property
    def name(self) -> tuple[str, str]:
        return name_of(self.rule)


def name_of(rule: Rule | RuleRemoval) -> tuple[str, str]:
    """The identity of a rule: a newer rule with the same name replaces it."""
    if isinstance(rule, RuleRemoval):
        return rule.kind, rule.measurement
    return (
        ("keep", rule.measurement) if isinstance(rule, RetentionRule) else ("downsample", rule.into)
    )


def describe(rule: Rule) -> str:
    """A description of the rule for messages."""
    if isinstance(rule, RetentionRule):
        return f"the rule that keeps {rule.measurement!r}"
    return f"the rule that makes {rule.into!r} of {rule.source!r}"


def check_rule(rule: Rule, others: list[Rule]) -> Rule:
    """Return the rule if it is valid beside the others, else raise Invalid."""
    if isinstance(rule, RetentionRule):
        check_name(rule.measurement, "a measurement")
        if rule.keep_ns <= 0:
            raise Invalid(f"points cannot be kept for {rule.keep_ns} ns: give more than 0")
        return rule
    check_name(rule.source, "a measurement")
    check_name(rule.into, "a measurement")
    if rule.window_ns <= 0 or rule.delay_ns < 0:
        raise Invalid("invalid window or delay: the window is more than 0, the delay at least 0")
    if not rule.aggregates or len(set(rule.aggregates)) < len(rule.aggregates):
        raise Invalid("name at least one aggregate, each once")
    for name in rule.aggregates:
        parse_aggregate(name)
    for tag in rule.by or ():
        check_name(tag, "a tag")
    _check_no_cycle(rule, others)
    return rule


def aggregates_of(rule: DownsamplingRule) -> list[AggregateFunction]:
    return [parse_aggregate(name) for name in rule.aggregates]


def aggregated_field(field: str, aggregate: AggregateFunction) -> str:
    """The name of the field with the aggregate of a field: load, avg -> load_avg."""
    return f"{field}_{aggregate.label}"


def align_floor(floor: int, rules: list[DownsamplingRule]) -> int:
    """The highest floor, at most ``floor``, that is not inside a window of the rules."""
    step = math.lcm(*(rule.window_ns for rule in rules))
    return floor // step * step


def _check_no_cycle(rule: DownsamplingRule, others: list[Rule]) -> None:
    source_of = {
        other.into: other.source
        for other in others
        if isinstance(other, DownsamplingRule) and other.into != rule.into
    }
    source: str | None = rule.source
    while source is not None:
        if source == rule.into:
            raise Invalid(
                f"{rule.into!r} would be downsampled from itself: use another measurement"
            )
        source = source_of.get(source)
