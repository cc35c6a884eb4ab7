"""Routers as a graph of topics: circles, and who feeds whom. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from strandline.routers.definition import Router


def find_cycle(routers: Iterable[Router], added: Router) -> list[str] | None:
    """The topics of a circle that a router would close, its source first and last; None if none."""
    onward: dict[str, list[str]] = {}
    for router in routers:
        if router.name != added.name:
            onward.setdefault(router.source, []).append(router.dest)
    came_from = {added.dest: added.source}
    waiting = [added.dest]
    while waiting:
        topic = waiting.pop()
        if topic == added.source:
            return _path(came_from, added)
        for dest in onward.get(topic, ()):
            if dest not in came_from:
                came_from[dest] = topic
                waiting.append(dest)
    return None


def topics_in_cycles(routers: Iterable[Router]) -> set[str]:
    """The topics that a record could come back to."""
    known = list(routers)
    found: set[str] = set()
    if any(router.allow_cycle for router in known):  # without one nothing can form a circle
        for router in known:
            found.update(find_cycle(known, router) or ())
    return found


def _path(came_from: dict[str, str], added: Router) -> list[str]:
    path = [added.source]
    topic = came_from[added.source]
    while topic != added.source:
        path.append(topic)
        topic = came_from[topic]
    path.append(added.source)
    return path[::-1]
