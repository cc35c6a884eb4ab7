"""Views as they were saved, without the store: read out of the reservoir by somebody else.

A saved state is whole and of one moment, that of its checkpoint; what the caller's topics have
behind it is folded in. Views let go only of records that a checkpoint has seen. So whoever looks at
the topics first, and opens this afterwards, finds every record either there or in the state.

The topics are the caller's own kind of thing: all that a host asks of them to follow is their
identity, head, options, ``read`` and ``pick``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import msgspec

from strandline.config.memory_budget import Budget
from strandline.config.settings import ViewSettings
from strandline.config.view_config import KINDS, ViewConfigs
from strandline.errors import Corrupt, NotFound
from strandline.log.topic.topic import Topic
from strandline.platform.clock import SystemClock
from strandline.platform.objectstore.cloud import open_objects
from strandline.records import Record
from strandline.reservoir.reservoir import Reservoir
from strandline.views import saved_views_index
from strandline.views.lazy import load_kinds
from strandline.views.view import World
from strandline.views.view_runner import Host, Saved


class SavedViews:
    """The newest checkpoint of a store's views. Owned by one thread."""

    def __init__(self, url: str, store_id: str) -> None:
        self.url = url
        self._clock = SystemClock()
        self._budget = Budget(ViewSettings().memory_bytes)
        objects = open_objects(url)
        try:
            self._reservoir = Reservoir(objects, readonly=True, start_jobs=False)
        except NotFound:
            objects.close()
            raise NotFound(
                f"no views are saved in {url}: name the place that the setting views.url of the "
                "store names, and look whether the store has saved them there"
            ) from None
        except BaseException:
            objects.close()
            raise
        try:
            self._views = self._read(store_id)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._reservoir.close()

    def find(self, kind: str, name: str, topic_id: int | None) -> Saved:
        """The view of a topic by its name, or by its id, where somebody knows it."""
        keys = [
            key
            for key, saved in self._views.items()
            if key.startswith(f"{kind}-") and saved.name == name
        ]
        if topic_id is not None:
            keys.append(saved_views_index.key_of(kind, topic_id))
        lives = [self._views[key] for key in keys if key in self._views]
        found = max(lives, key=lambda saved: saved.topics[0], default=None)
        if found is None:
            raise NotFound(
                f"no {kind} view of topic {name!r} is saved in {self.url}: views are saved within "
                "a minute when they are in use; name the folder of the store or a server (url)"
            )
        return found

    def configs(self, kind: str, saved: Saved) -> ViewConfigs:
        """The views that are saved of the topic of one of them."""
        kinds = load_kinds()
        found: dict[str, Any] = {}
        for each in KINDS:
            other = self._views.get(saved_views_index.key_of(each, saved.topics[0][0]))
            if other is not None:
                found[each] = kinds[each].config()
        found[kind] = msgspec.msgpack.decode(saved.config, type=kinds[kind].config)
        return ViewConfigs(**found)

    def host(self, kind: str, saved: Saved, topics: Sequence[Any]) -> Host[Any]:
        """A view, with what its topics have behind the checkpoint."""
        made = load_kinds()[kind]
        config = getattr(self.configs(kind, saved), kind)

        def fetch(source: int, seqs: Sequence[int]) -> list[Record]:
            by_seq = {record.seq: record for record in topics[source].pick(seqs).records}
            return [by_seq[seq] for seq in seqs if seq in by_seq]

        world = World(self._clock, self._budget.share(made.share), fetch, None, 1 << 62)
        return Host(
            kind,
            cast("Sequence[Topic]", topics),
            partial(made.fold, config, world),
            self._reservoir.session(),
            world,
            saved,
        )

    def _read(self, store_id: str) -> dict[str, Saved]:
        passed_over = self._reservoir.recovered.passed_over
        if passed_over:
            raise Corrupt(
                f"the newest state of views cannot be read ({passed_over[0]}), and an older one "
                "may lack what has left the log: name the folder of the store or a server (url)",
                path=self.url,
            )
        found = saved_views_index.read(self._reservoir, store_id, self.url)
        return {} if found is None else found.views
