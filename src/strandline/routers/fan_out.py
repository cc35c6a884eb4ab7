"""How many copies one record may become through chains and fan-outs of routers. Pure.

The bound of a topic is computed from the definitions alone:

    copies(topic) = sum over its routers of 1 + copies(destination)

Of routers whose filters compare one field with fixed values (Eq, In) only those count that can take
the same record. In a circle a record makes ``HOPS_MAX`` hops, and the bound counts each of them.
Which records there are is not considered: the bound is never too low, and may be too high.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from strandline.routers.definition import HOPS_MAX, Router
from strandline.routers.router_graph import topics_in_cycles

_COUNT_MAX = 10**12
_NAMES_MAX = 8

Place = tuple[str, int]
"""A topic, and how many hops within a circle a record has made that is there."""


class FanOut:
    """The copies that records of each topic may become. Owned by one thread.

    With ``copies_max`` routers that would exceed it are left out, later ones first, and are in
    ``excess``; without it all routers count.
    """

    def __init__(self, routers: Collection[Router], copies_max: int | None = None) -> None:
        self.excess: set[str] = set()
        self._copies_max = copies_max
        self._circular = topics_in_cycles(routers)
        self._from: dict[str, list[Router]] = {}
        self._into: dict[str, set[str]] = {}
        self._copies: dict[Place, int] = {}
        for router in routers:
            self._from.setdefault(router.source, []).append(router)
            self._into.setdefault(router.dest, set()).add(router.source)

    @property
    def sources(self) -> Iterable[str]:
        return self._from

    @property
    def circular(self) -> set[str]:
        """Topics to which a record may come back."""
        return self._circular

    def copies(self, topic: str) -> int:
        """How many copies a record that is appended to the topic may become, at most."""
        waiting: list[Place] = [(topic, 0)]
        while waiting:
            place = waiting[-1]
            unknown = [
                dest
                for router in self._routers_at(place)
                if (dest := self._after(place, router)) not in self._copies
            ]
            if unknown:
                waiting += unknown
                continue
            waiting.pop()
            if place not in self._copies:
                self._copies[place] = self._count(place)
        return self._copies[topic, 0]

    def upstream(self, topic: str) -> set[str]:
        """The topic, and all topics whose records may reach it."""
        found, waiting = {topic}, [topic]
        while waiting:
            new = self._into.get(waiting.pop(), set()) - found
            found |= new
            waiting += new
        return found

    def heaviest_path(self, topic: str) -> list[str]:
        """Names of the routers along which a record of the topic becomes the most copies."""
        self.copies(topic)
        place, names = (topic, 0), list[str]()
        while routers := self._routers_at(place):
            router = max(routers, key=lambda each: self._copies[self._after(place, each)])
            names.append(router.name)
            place = self._after(place, router)
        return names

    def _routers_at(self, place: Place) -> list[Router]:
        return [] if place[1] >= HOPS_MAX else self._from.get(place[0], [])

    def _after(self, place: Place, router: Router) -> Place:
        is_inside = {router.source, router.dest} <= self._circular
        return router.dest, place[1] + 1 if is_inside else 0

    def _count(self, place: Place) -> int:
        taken = _Taken()
        for router in self._routers_at(place):
            weight = 1 + self._copies[self._after(place, router)]
            if self._copies_max is None or place[0] in self._circular:
                taken.add(router, weight)
            elif router.name not in self.excess and not taken.add(router, weight, self._copies_max):
                self.excess.add(router.name)
        return min(taken.total, _COUNT_MAX)


class _Taken:
    """The most copies that routers of one topic make of one record."""

    def __init__(self) -> None:
        self._always = 0
        self._by_value: dict[str, dict[str, int]] = {}
        self._most: dict[str, int] = {}

    @property
    def total(self) -> int:
        return self._always + sum(self._most.values())

    def add(self, router: Router, weight: int, limit: int | None = None) -> bool:
        """Count a router; False, and nothing is counted, when that would exceed the limit."""
        condition = router.filter
        if condition is None or condition.operator == "Glob":
            if limit is not None and self.total + weight > limit:
                return False
            self._always += weight
            return True
        value = condition.value
        values = {value} if isinstance(value, str) else set(value)
        known = self._by_value.setdefault(condition.field, {})
        before = self._most.get(condition.field, 0)
        most = max(before, weight + max(known.get(each, 0) for each in values))
        if limit is not None and self.total - before + most > limit:
            return False
        self._most[condition.field] = most
        for each in values:
            known[each] = known.get(each, 0) + weight
        return True


def excess_of(routers: Collection[Router], copies_max: int) -> set[str]:
    """Names of the routers that must be held so that no record becomes more copies than the bound.

    Earlier routers of a topic go first. A circle that exceeds the bound is held as a whole.
    """
    whole = FanOut(routers)
    if all(whole.copies(topic) <= copies_max for topic in whole.sources):
        return set()
    inside: set[str] = set()
    if any(whole.copies(topic) > copies_max for topic in whole.circular):
        inside = {each.name for each in routers if {each.source, each.dest} <= whole.circular}
    rest = FanOut([each for each in routers if each.name not in inside], copies_max)
    for topic in rest.sources:
        rest.copies(topic)
    return inside | rest.excess


def describe_excess(routers: Collection[Router], added: Router, copies_max: int) -> str | None:
    """What is wrong with a router that would exceed the bound; None when it does not."""
    fan_out = FanOut([*(each for each in routers if each.name != added.name), added])
    topic = max(fan_out.upstream(added.source), key=lambda each: (fan_out.copies(each), each))
    copies = fan_out.copies(topic)
    if copies <= copies_max:
        return None
    names = fan_out.heaviest_path(topic)
    told = " > ".join(names[:_NAMES_MAX]) + " > …" * (len(names) > _NAMES_MAX)
    return (
        f"router {added.name!r}: one record of topic {topic!r} could become {copies} copies, and "
        f"limits.router_copies_max is {copies_max} (most along the routers {told}): leave a router "
        "out, filter by values, or raise the limit"
    )
