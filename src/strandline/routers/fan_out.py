"""The maximum number of copies of one record through chains and fan-outs of routers. Pure.

The bound of a topic is computed from the definitions alone:

    copies(topic) = sum over its routers of 1 + copies(destination)

Of routers whose filters compare one field with fixed values (Eq, In), only those that can match the
same record count. In a circle a record makes ``HOPS_MAX`` hops, and the bound counts each of them.
Actual records are not considered: the bound is never too low, and may be too high.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from strandline.routers.definition import HOPS_MAX, Router
from strandline.routers.router_graph import topics_in_cycles

_COUNT_MAX = 10**12
_NAMES_MAX = 8

HopState = tuple[str, int]
"""A topic, and the number of hops within a circle of a record in it."""


class FanOut:
    """The maximum copies of a record of each topic. Owned by one thread.

    With ``copies_max``, routers that would exceed it are left out, later ones first, and added to
    ``excess``; without it all routers count.
    """

    def __init__(self, routers: Collection[Router], copies_max: int | None = None) -> None:
        self.excess: set[str] = set()
        self._copies_max = copies_max
        self._circular = topics_in_cycles(routers)
        self._by_source: dict[str, list[Router]] = {}
        self._sources_by_dest: dict[str, set[str]] = {}
        self._copies: dict[HopState, int] = {}
        for router in routers:
            self._by_source.setdefault(router.source, []).append(router)
            self._sources_by_dest.setdefault(router.dest, set()).add(router.source)

    @property
    def sources(self) -> Iterable[str]:
        return self._by_source

    @property
    def circular(self) -> set[str]:
        """Topics that are part of a circle."""
        return self._circular

    def copies(self, topic: str) -> int:
        """The maximum number of copies of a record that is appended to the topic."""
        stack: list[HopState] = [(topic, 0)]
        while stack:
            place = stack[-1]
            unknown = [
                dest
                for router in self._routers_at(place)
                if (dest := self._after(place, router)) not in self._copies
            ]
            if unknown:
                stack += unknown
                continue
            stack.pop()
            if place not in self._copies:
                self._copies[place] = self._count(place)
        return self._copies[topic, 0]

    def upstream(self, topic: str) -> set[str]:
        """The topic, and all topics whose records may reach it."""
        reached, queue = {topic}, [topic]
        while queue:
            new = self._sources_by_dest.get(queue.pop(), set()) - reached
            reached |= new
            queue += new
        return reached

    def heaviest_path(self, topic: str) -> list[str]:
        """Names of the routers on the path with the most copies of a record of the topic."""
        self.copies(topic)
        place, names = (topic, 0), list[str]()
        while routers := self._routers_at(place):
            router = max(routers, key=lambda each: self._copies[self._after(place, each)])
            names.append(router.name)
            place = self._after(place, router)
        return names

    def _routers_at(self, place: HopState) -> list[Router]:
        return [] if place[1] >= HOPS_MAX else self._by_source.get(place[0], [])

    def _after(self, place: HopState, router: Router) -> HopState:
        is_inside = {router.source, router.dest} <= self._circular
        return router.dest, place[1] + 1 if is_inside else 0

    def _count(self, place: HopState) -> int:
        counter = _CopyCounter()
        for router in self._routers_at(place):
            weight = 1 + self._copies[self._after(place, router)]
            if self._copies_max is None or place[0] in self._circular:
                counter.add(router, weight)
            elif router.name not in self.excess and not counter.add(
                router, weight, self._copies_max
            ):
                self.excess.add(router.name)
        return min(counter.total, _COUNT_MAX)


class _CopyCounter:
    """The maximum number of copies that routers of one topic make of one record."""

    def __init__(self) -> None:
        self._always = 0
        self._by_value: dict[str, dict[str, int]] = {}
        self._maximum: dict[str, int] = {}

    @property
    def total(self) -> int:
        return self._always + sum(self._maximum.values())

    def add(self, router: Router, weight: int, limit: int | None = None) -> bool:
        """Count a router; return False and count nothing if that would exceed the limit."""
        condition = router.filter
        if condition is None or condition.operator == "Glob":
            if limit is not None and self.total + weight > limit:
                return False
            self._always += weight
            return True
        value = condition.value
        values = {value} if isinstance(value, str) else set(value)
        known = self._by_value.setdefault(condition.field, {})
        previous = self._maximum.get(condition.field, 0)
        most = max(previous, weight + max(known.get(each, 0) for each in values))
        if limit is not None and self.total - previous + most > limit:
            return False
        self._maximum[condition.field] = most
        for each in values:
            known[each] = known.get(each, 0) + weight
        return True


def excess_of(routers: Collection[Router], copies_max: int) -> set[str]:
    """Names of the routers to hold so that no record has more copies than the bound.

    Earlier routers of a topic have priority. A circle that exceeds the bound is held as a whole.
    """
    complete = FanOut(routers)
    if all(complete.copies(topic) <= copies_max for topic in complete.sources):
        return set()
    in_circle: set[str] = set()
    if any(complete.copies(topic) > copies_max for topic in complete.circular):
        in_circle = {each.name for each in routers if {each.source, each.dest} <= complete.circular}
    others = FanOut([each for each in routers if each.name not in in_circle], copies_max)
    for topic in others.sources:
        others.copies(topic)
    return in_circle | others.excess


def describe_excess(routers: Collection[Router], added: Router, copies_max: int) -> str | None:
    """The error message for a router that would exceed the bound; None if it does not."""
    fan_out = FanOut([*(each for each in routers if each.name != added.name), added])
    topic = max(fan_out.upstream(added.source), key=lambda each: (fan_out.copies(each), each))
    copies = fan_out.copies(topic)
    if copies <= copies_max:
        return None
    names = fan_out.heaviest_path(topic)
    path = " > ".join(names[:_NAMES_MAX]) + " > …" * (len(names) > _NAMES_MAX)
    return (
        f"router {added.name!r}: one record of topic {topic!r} could become {copies} copies, and "
        f"limits.router_copies_max is {copies_max} (most along the routers {path}): leave a router "
        "out, filter by values, or raise the limit"
    )
