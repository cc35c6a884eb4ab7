# Made from asynchronous/views.py by tests/house/blocking.py: change that one.
"""Opens, alters, rebuilds and lists the views of a server by name."""

from __future__ import annotations

import msgspec

from strandline.api import results as wire
from strandline.client.blocking.endpoint import RemoteEndpoint
from strandline.client.name_validation import check_possible_name
from strandline.config.memory_budget import ShareUse
from strandline.config.view_config import KINDS
from strandline.errors import Invalid
from strandline.records import check_topic_name


class RemoteViews:
    """The views of one store, by name. Safe from many threads."""

    def __init__(self, endpoint: RemoteEndpoint) -> None:
        self._endpoint = endpoint

    def open(self, kind: str, name: str, options: dict[str, object]) -> None:
        """Ensure that a view of this name exists; create it with these options if it is absent."""
        endpoint = self._view(kind, check_topic_name(name))
        body = wire.OpenView(options=_plain(options))
        endpoint.put("", body, wire.OpenViewResponse)

    def alter(self, kind: str, name: str, **options: object) -> None:
        """Change the options of a view; it is rebuilt if they change how records are folded."""
        endpoint = self._view(kind, name)
        endpoint.patch("", wire.AlterView(options=_plain(options)), wire.ViewInfo)

    def rebuild(self, kind: str, name: str) -> None:
        """Delete the state of a view, and compute it again from the log."""
        self._view(kind, name).post_safe("rebuild", None, wire.RebuildResponse)

    def digest(self, kind: str, name: str) -> str:
        """A checksum of the readable content of a view: the same before and after a rebuild."""
        return (self._view(kind, name).get("digest", wire.DigestResponse)).digest

    def memory(self) -> dict[str, ShareUse]:
        """The used part of each share of the memory budget."""
        response = self._endpoint.get("memory", wire.MemoryResponse)
        return msgspec.convert(msgspec.to_builtins(response.shares), dict[str, ShareUse])

    def names(self) -> list[tuple[str, str]]:
        """The kind and name of every view of the store."""
        response = self._endpoint.get("views", wire.ViewsResponse)
        return sorted((view.kind, view.topic) for view in response.views)

    def _view(self, kind: str, name: str) -> RemoteEndpoint:
        if kind not in KINDS:
            raise Invalid(f"there is no kind of view {kind!r}: use one of {', '.join(KINDS)}")
        return self._endpoint.below("views", check_possible_name(name), kind)


def _plain(options: dict[str, object]) -> dict[str, object]:
    try:
        plain: dict[str, object] = msgspec.to_builtins(options)
    except TypeError as error:
        raise Invalid(f"an option cannot be sent as JSON: {error}") from error
    return plain
