"""Finds the route of a path: segment by segment, each unpacked from percent signs by itself.

So a key may hold a slash, written ``%2F``. A name in braces takes one segment; plain words win over
names. Nothing is collapsed or corrected: a path with a slash too many is another path.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from strandline.api.errors import Refused
from strandline.server.http.route import Route


class Found(NamedTuple):
    """The methods of a path, and what stands for its names."""

    routes: dict[str, Route]
    names: dict[str, str]


class _Branch:
    __slots__ = ("any_word", "names", "routes", "words")

    def __init__(self) -> None:
        self.words: dict[str, _Branch] = {}
        self.any_word: _Branch | None = None
        self.routes: dict[str, Route] = {}
        self.names: tuple[str, ...] = ()


class Paths:
    """All routes, as a tree of their segments. Safe from many threads: it is never changed."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._root = _Branch()
        for route in routes:
            self._add(route)

    def find(self, raw_path: bytes) -> Found | None:
        """What is at a path, None when nothing is."""
        segments = [_unpacked(segment) for segment in raw_path.split(b"/")[1:]]
        taken: list[str] = []
        branch = _walk(self._root, segments, 0, taken)
        if branch is None:
            return None
        return Found(branch.routes, dict(zip(branch.names, taken, strict=True)))

    def _add(self, route: Route) -> None:
        branch, names = self._root, []
        for segment in route.path.split("/")[1:]:
            if segment.startswith("{"):
                names.append(segment[1:-1])
                branch.any_word = branch.any_word or _Branch()
                branch = branch.any_word
            else:
                branch = branch.words.setdefault(segment, _Branch())
        if branch.routes and branch.names != tuple(names):
            raise ValueError(f"{route.path} has other names than its other methods")
        if route.method in branch.routes:
            raise ValueError(f"{route.method} {route.path} is there twice")
        branch.names = tuple(names)
        branch.routes[route.method] = route


def _walk(branch: _Branch, segments: list[str], place: int, taken: list[str]) -> _Branch | None:
    if place == len(segments):
        return branch if branch.routes else None
    segment = segments[place]
    plain = branch.words.get(segment)
    if plain is not None:
        found = _walk(plain, segments, place + 1, taken)
        if found is not None:
            return found
    if branch.any_word is None or not segment:
        return None
    taken.append(segment)
    found = _walk(branch.any_word, segments, place + 1, taken)
    if found is None:
        taken.pop()
    return found


def _unpacked(segment: bytes) -> str:
    try:
        return (unquote_to_bytes(segment) if b"%" in segment else segment).decode()
    except UnicodeDecodeError:
        raise Refused(400, "invalid_request", "the path is not UTF-8") from None
