"""Opens views by name: creates or checks their topics and options, then opens them in the registry.

A view has the name of its topic. Opening a view creates the topic if it is missing, and adds the
view to the topic if the topic has none of that kind. Options are those of the view
(``config/view_config.py``) and those of a new topic, such as its durability.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from strandline.config.memory_budget import ShareUse
from strandline.config.settings import TopicConfig
from strandline.config.view_config import KINDS, QueueConfig, ViewConfigs
from strandline.errors import Invalid, NotFound, UnknownTopic
from strandline.log.topic.topic import Topic
from strandline.records import check_topic_name
from strandline.views.lazy import load_kinds
from strandline.views.view import FilesLost, Fold, FoldContext
from strandline.views.view_registry import ViewRegistry, ViewSpec
from strandline.views.view_runner import ViewRunner

V = TypeVar("V")


def _whole(config: msgspec.Struct) -> object:
    return config


class ViewKind(NamedTuple, Generic[V]):
    """A kind of view: how it is folded and opened."""

    name: str
    config: type[msgspec.Struct]
    share: str
    suffixes: tuple[str, ...]
    """Suffixes of its topics' names after the view's name, the topic of that name first."""
    fold: Callable[[Any, FoldContext], Fold]
    facade: Callable[[ViewRunner[Any], Callable[[str], Topic], Callable[[str], Topic]], V]
    """Gets two functions: one for topics named by the view's name and a suffix, one for plain
    topics by name. Both create a missing topic."""
    essence: Callable[[Any], object] = _whole
    """The options that decide what records fold into. If they change, the view is folded again."""


class _ViewTopics(Protocol):
    """The topics of a store."""

    def topic(self, name: str, **options: object) -> Topic: ...

    def existing_topic(self, name: str) -> Topic: ...

    def topics(self, prefix: str = "") -> list[str]: ...

    def has_topic(self, topic_id: int) -> bool: ...

    @property
    def readonly(self) -> bool: ...


class Views:
    """The views of one store, by name. Safe from many threads."""

    def __init__(self, registry: ViewRegistry, topics: _ViewTopics) -> None:
        self.registry = registry
        self._topics = topics

    def open(self, kind: str | ViewKind[Any], name: str, options: dict[str, object]) -> Any:
        """The view of this name, created with these options if it is missing."""
        kind = self._kind(kind)
        topic = self._topic(kind, name, options)
        return self.registry.facade(self._maker(kind, topic), self._facade(kind, topic))

    def alter(self, kind: str | ViewKind[Any], name: str, **options: object) -> None:
        """Change a view's options. It is folded again if they change what records fold into."""
        kind = self._kind(kind)
        topic = self._topics.existing_topic(name)
        config = getattr(topic.config.views, kind.name)
        if config is None:
            raise NotFound(f"topic {name!r} has no {kind.name} view")
        changed = _config(kind, config, options)
        topic.alter(views=msgspec.structs.replace(topic.config.views, **{kind.name: changed}))
        self.open(kind, name, {})
        if kind.essence(changed) == kind.essence(config):
            self.registry.reload(self._maker(kind, topic))
        else:
            self.registry.rebuild(self._maker(kind, topic))

    def rebuild(self, kind: str | ViewKind[Any], name: str) -> None:
        """Discard a view's state and fold the log again."""
        kind = self._kind(kind)
        topic = self._topics.existing_topic(name)
        try:
            self.open(kind, name, {})
        except FilesLost:
            self.registry.discard_saved(self._maker(kind, topic))
            self.open(kind, name, {})
            return
        self.registry.rebuild(self._maker(kind, topic))

    def spec(self, kind: str | ViewKind[Any], name: str) -> ViewSpec:
        """What an existing view is made of. The view need not be open."""
        kind = self._kind(kind)
        topic = self._topics.existing_topic(name)
        if getattr(topic.config.views, kind.name) is None:
            raise NotFound(f"topic {name!r} has no {kind.name} view")
        return self._maker(kind, topic)

    def saved_position(self, kind: str | ViewKind[Any], name: str) -> int:
        """The seq of its topic that the saved state of a view goes up to, 0 without one."""
        return self.registry.saved_position(self.spec(kind, name))

    def digest(self, kind: str | ViewKind[Any], name: str) -> str:
        """A checksum of everything visible in a view: the same before and after a rebuild."""
        kind = self._kind(kind)
        self.open(kind, name, {})
        return self.registry.host(kind.name, self._topics.existing_topic(name)).digest()

    def companions(self, name: str, *, if_empty: bool) -> list[str]:
        """Topics that belong to the views of a topic, which is about to be deleted."""
        topic = self._find(name)
        if topic is None:
            return []
        if topic.config.views.owner:
            raise Invalid(
                f"topic {name!r} belongs to a view of {topic.config.views.owner!r}: delete that "
                "topic instead"
            )
        if if_empty and topic.statistics().count:
            return []  # the delete will be rejected
        if topic.config.views.table is not None:
            self.open("table", name, {})  # open it: only the open view can list its files
        names = self._topics.topics(f"{name}:")
        owners = {each: self._topics.existing_topic(each).config.views.owner for each in names}
        return [each for each, owner in owners.items() if owner == name]

    def memory(self) -> dict[str, ShareUse]:
        """The use of each share of the memory budget."""
        return self.registry.budget.use()

    def names(self) -> list[tuple[str, str]]:
        """Every view of the store as (kind, name)."""
        names = []
        for name in self._topics.topics():
            views = self._topics.existing_topic(name).config.views
            names += [(kind, name) for kind in KINDS if getattr(views, kind) is not None]
        return sorted(names)

    def _kind(self, kind: str | ViewKind[Any]) -> ViewKind[Any]:
        if isinstance(kind, ViewKind):
            return kind
        if kind not in KINDS:
            raise Invalid(f"unknown kind of view {kind!r}: use one of {', '.join(KINDS)}")
        loaded: ViewKind[Any] = load_kinds()[kind]
        return loaded

    def _topic(self, kind: ViewKind[Any], name: str, options: dict[str, object]) -> Topic:
        own = {key: value for key, value in options.items() if key in _fields(kind)}
        others = {key: value for key, value in options.items() if key not in own}
        _reject_unknown(kind, others)
        if self._topics.readonly:
            topic = self._topics.existing_topic(name)
            if getattr(topic.config.views, kind.name) is None:
                raise NotFound(f"topic {name!r} has no {kind.name} view: open it for writing first")
            return topic
        config = _config(kind, kind.config(), own)
        own_views = {kind.name: config}
        if isinstance(config, QueueConfig):
            self.check_dead_letter_topic(name, config)
        if self._find(name) is None:
            views = msgspec.structs.replace(ViewConfigs(), **own_views)
            return self._topics.topic(name, views=views, **others)
        topic = self._topics.topic(name, **others)
        if topic.config.views.owner:
            raise Invalid(
                f"topic {name!r} belongs to a view of {topic.config.views.owner!r} and cannot have "
                "a view of its own: use another topic"
            )
        present = getattr(topic.config.views, kind.name)
        if present is None:
            topic.alter(views=msgspec.structs.replace(topic.config.views, **own_views))
        elif own and _config(kind, present, own) != present:
            raise Invalid(
                f"the {kind.name} view of {name!r} has other options than given: use "
                "store.views.alter() to change them"
            )
        return topic

    def check_dead_letter_topic(self, name: str, config: QueueConfig | None) -> None:
        """Raise when the topic for dead letters cannot be used."""
        if config is None or config.dead_letter is None:
            return
        if check_topic_name(config.dead_letter) == name:
            raise Invalid("dead_letter cannot be the queue itself")
        topic = self._find(config.dead_letter)
        if topic is not None and topic.config.views:
            raise Invalid(
                f"topic {config.dead_letter!r} has or belongs to a view: use a plain topic"
            )

    def _maker(self, kind: ViewKind[Any], topic: Topic) -> ViewSpec:
        config = getattr(topic.config.views, kind.name)
        topics = [topic, *(self._companion(topic, suffix) for suffix in kind.suffixes[1:])]
        return ViewSpec(
            kind.name,
            kind.share,
            msgspec.msgpack.encode(kind.essence(config)),
            topics,
            partial(kind.fold, config),
        )

    def _facade(self, kind: ViewKind[Any], topic: Topic) -> Callable[[ViewRunner[Any]], Any]:
        def facade(host: ViewRunner[Any]) -> Any:
            return kind.facade(host, partial(self._companion, topic), partial(self._plain, topic))

        return facade

    def _companion(self, topic: Topic, suffix: str) -> Topic:
        """A topic that belongs to the view of another."""
        name = topic.name + suffix
        companion = self._topics.existing_topic(name) if self._topics.readonly else self._find(name)
        if companion is not None:
            return companion
        views = ViewConfigs(owner=topic.name)
        return self._topics.topic(name, durability=topic.config.durability, views=views)

    def _plain(self, topic: Topic, name: str) -> Topic:
        """An independent topic that the view of another appends to."""
        plain = self._topics.existing_topic(name) if self._topics.readonly else self._find(name)
        if plain is None:
            return self._topics.topic(name, durability=topic.config.durability)
        if plain.config.views:
            raise Invalid(f"topic {name!r} has or belongs to a view: use a plain topic")
        return plain

    def _find(self, name: str) -> Topic | None:
        try:
            return self._topics.existing_topic(name)
        except UnknownTopic:
            return None


def _fields(kind: ViewKind[Any]) -> tuple[str, ...]:
    return kind.config.__struct_fields__


def _config(
    kind: ViewKind[Any], base: msgspec.Struct, options: dict[str, object]
) -> msgspec.Struct:
    try:
        return msgspec.convert(msgspec.structs.asdict(base) | options, kind.config)
    except msgspec.ValidationError as error:
        raise Invalid(f"bad {kind.name} option: {error}") from error


def _reject_unknown(kind: ViewKind[Any], others: dict[str, object]) -> None:
    topic_options = [name for name in TopicConfig.__struct_fields__ if name not in ("views",)]
    for name in others:
        if name not in topic_options:
            raise Invalid(
                f"unknown {kind.name} option {name!r}: options of the view are "
                f"{', '.join(_fields(kind))}; options of its topic are {', '.join(topic_options)}"
            )
