"""Reads saved views out of their reservoir without opening the store, for other processes.

A saved state is consistent: it is that of one checkpoint. Records that the caller's topics have
after the checkpoint are folded in. Views release only records that a checkpoint covers. So a caller
that lists the topics first and opens this afterwards finds every record either there or in the
state.

The topics are objects of the caller. A view runner uses only their identity, head, options,
``read`` and ``pick``.
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
from strandline.views.view import FoldContext
from strandline.views.view_runner import SavedView, ViewRunner


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
                f"no views are saved in {url}: use the location in the setting views.url of the "
                "store, and check that the store has saved its views there"
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

    def find(self, kind: str, name: str, topic_id: int | None) -> SavedView:
        """The view of a topic by its name, or by its id if the caller has one."""
        keys = [
            key
            for key, saved in self._views.items()
            if key.startswith(f"{kind}-") and saved.name == name
        ]
        if topic_id is not None:
            keys.append(saved_views_index.key_of(kind, topic_id))
        candidates = [self._views[key] for key in keys if key in self._views]
        # An earlier topic of the same name has a smaller id.
        newest = max(candidates, key=lambda saved: saved.topics[0], default=None)
        if newest is None:
            raise NotFound(
                f"no {kind} view of topic {name!r} is saved in {self.url}: views in use are saved "
                "within a minute; otherwise use the folder of the store or the url of a server"
            )
        return newest

    def configs(self, kind: str, saved: SavedView) -> ViewConfigs:
        """The configurations of all saved views of the topic of one of them."""
        kinds = load_kinds()
        configs: dict[str, Any] = {}
        for each in KINDS:
            other = self._views.get(saved_views_index.key_of(each, saved.topics[0][0]))
            if other is not None:
                configs[each] = kinds[each].config()
        configs[kind] = msgspec.msgpack.decode(saved.config, type=kinds[kind].config)
        return ViewConfigs(**configs)

    def host(self, kind: str, saved: SavedView, topics: Sequence[Any]) -> ViewRunner[Any]:
        """A view, with the records that its topics have after the checkpoint."""
        view_kind = load_kinds()[kind]
        config = getattr(self.configs(kind, saved), kind)

        def fetch(source: int, seqs: Sequence[int]) -> list[Record]:
            by_seq = {record.seq: record for record in topics[source].get_many(seqs).records}
            return [by_seq[seq] for seq in seqs if seq in by_seq]

        world = FoldContext(self._clock, self._budget.share(view_kind.share), fetch, None, 1 << 62)
        return ViewRunner(
            kind,
            cast("Sequence[Topic]", topics),
            partial(view_kind.fold, config, world),
            self._reservoir.session(),
            world,
            saved,
        )

    def _read(self, store_id: str) -> dict[str, SavedView]:
        passed_over = self._reservoir.recovered.passed_over
        if passed_over:
            raise Corrupt(
                f"the newest state of views cannot be read ({passed_over[0]}), and an older one "
                "may lack records that have left the log: use the folder of the store or the url "
                "of a server",
                path=self.url,
            )
        index = saved_views_index.read(self._reservoir, store_id, self.url)
        return {} if index is None else index.views
