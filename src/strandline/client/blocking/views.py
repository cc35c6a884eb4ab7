# Made from asynchronous/views.py by tests/house/blocking.py: change that one.
"""The views of a server by name: opened, altered, rebuilt, listed."""

from __future__ import annotations

import msgspec

from strandline.api import results as wire
from strandline.client.blocking.endpoint import RemoteRoute
from strandline.client.name_validation import known
from strandline.config.memory_budget import ShareUse
from strandline.config.view_config import KINDS
from strandline.errors import Invalid
from strandline.records import check_topic_name


class RemoteViews:
    """The views of one store, by name. Safe from many threads."""

    def __init__(self, at: RemoteRoute) -> None:
        self._at = at

    def open(self, kind: str, name: str, options: dict[str, object]) -> None:
        """See to it that there is a view of this name, made with these options if need be."""
        at = self._view(kind, check_topic_name(name))
        asked = wire.OpenView(options=_plain(options))
        at.put("", asked, wire.Opened)

    def alter(self, kind: str, name: str, **options: object) -> None:
        """Change a view's options; it is folded again if they change what records mean to it."""
        at = self._view(kind, name)
        at.patch("", wire.AlterView(options=_plain(options)), wire.View)

    def rebuild(self, kind: str, name: str) -> None:
        """Throw a view's state away, and fold the log again."""
        self._view(kind, name).find("rebuild", None, wire.Rebuilt)

    def digest(self, kind: str, name: str) -> str:
        """A checksum of all that can be seen of a view: the same before and after a rebuild."""
        return (self._view(kind, name).get("digest", wire.Digest)).digest

    def memory(self) -> dict[str, ShareUse]:
        """How much of each share of the memory budget is used."""
        told = self._at.get("memory", wire.Memory)
        return msgspec.convert(msgspec.to_builtins(told.shares), dict[str, ShareUse])

    def names(self) -> list[tuple[str, str]]:
        """Every view of the store: kind and name."""
        told = self._at.get("views", wire.Views)
        return sorted((view.kind, view.topic) for view in told.views)

    def _view(self, kind: str, name: str) -> RemoteRoute:
        if kind not in KINDS:
            raise Invalid(f"there is no view {kind!r}: known are {', '.join(KINDS)}")
        return self._at.below("views", known(name), kind)


def _plain(options: dict[str, object]) -> dict[str, object]:
    try:
        plain: dict[str, object] = msgspec.to_builtins(options)
    except TypeError as error:
        raise Invalid(f"this is no option that can be sent: {error}") from error
    return plain
