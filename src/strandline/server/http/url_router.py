"""Finds the route of a path, segment by segment; each segment is percent-decoded by itself.

So a key may contain a slash, written ``%2F``. A name in braces matches one segment; a literal wins
over a name. Paths are not normalized: a path with an extra slash is another path.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from strandline.api.errors import Refused
from strandline.server.http.route import Route


class RouteMatch(NamedTuple):
    """The routes of a path by method, and the values of its names."""

    routes: dict[str, Route]
    names: dict[str, str]


class _Branch:
    __slots__ = ("any_word", "names", "routes", "words")

    def __init__(self) -> None:
        self.words: dict[str, _Branch] = {}
        self.any_word: _Branch | None = None
        self.routes: dict[str, Route] = {}
        self.names: tuple[str, ...] = ()


class UrlRouter:
    """All routes, as a tree of their segments. Safe from many threads: it is never changed."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._root = _Branch()
        for route in routes:
            self._add(route)

    def find(self, raw_path: bytes) -> RouteMatch | None:
        """The routes at a path; None when there are none."""
        segments = [_decode(segment) for segment in raw_path.split(b"/")[1:]]
        values: list[str] = []
        branch = _walk(self._root, segments, 0, values)
        if branch is None:
            return None
        return RouteMatch(branch.routes, dict(zip(branch.names, values, strict=True)))

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
            raise ValueError(f"the methods of {route.path} differ in their names")
        if route.method in branch.routes:
            raise ValueError(f"{route.method} {route.path} is declared twice")
        branch.names = tuple(names)
        branch.routes[route.method] = route


def _walk(branch: _Branch, segments: list[str], index: int, values: list[str]) -> _Branch | None:
    if index == len(segments):
        return branch if branch.routes else None
    segment = segments[index]
    literal = branch.words.get(segment)
    if literal is not None:
        match = _walk(literal, segments, index + 1, values)
        if match is not None:
            return match
    if branch.any_word is None or not segment:
        return None
    values.append(segment)
    match = _walk(branch.any_word, segments, index + 1, values)
    if match is None:
        values.pop()
    return match


def _decode(segment: bytes) -> str:
    try:
        return (unquote_to_bytes(segment) if b"%" in segment else segment).decode()
    except UnicodeDecodeError:
        raise Refused(400, "invalid_request", "the path is not UTF-8") from None
