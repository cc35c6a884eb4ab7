"""Routers as a graph of topics: finds circles. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from strandline.routers.definition import Router


def find_cycle(routers: Iterable[Router], added: Router) -> list[str] | None:
    """The topics of a circle that a router would close, its source first and last, or None."""
    dests: dict[str, list[str]] = {}
    for router in routers:
        if router.name != added.name:
            dests.setdefault(router.source, []).append(router.dest)
    previous = {added.dest: added.source}
    stack = [added.dest]
    while stack:
        topic = stack.pop()
        if topic == added.source:
            return _path(previous, added)
        for dest in dests.get(topic, ()):
            if dest not in previous:
                previous[dest] = topic
                stack.append(dest)
    return None


def topics_in_cycles(routers: Iterable[Router]) -> set[str]:
    """The topics that are part of a circle."""
    known = list(routers)
    topics: set[str] = set()
    if any(router.allow_cycle for router in known):  # without one there is no circle
        for router in known:
            topics.update(find_cycle(known, router) or ())
    return topics


def _path(previous: dict[str, str], added: Router) -> list[str]:
    path = [added.source]
    topic = previous[added.source]
    while topic != added.source:
        path.append(topic)
        topic = previous[topic]
    path.append(added.source)
    return path[::-1]
