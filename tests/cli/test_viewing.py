"""Promise: who looks at a view goes on when the writer has deleted the pages it began with."""

from __future__ import annotations

import strandline
from strandline.cli.open_view import ReadOnlyView, run_query
from strandline.cli.options import ViewTarget
from strandline.config.settings import ReservoirSettings, Settings, ViewSettings
from strandline.store import Store

KEYS = 2000
KEEPING_LITTLE = Settings(
    views=ViewSettings(
        reservoir=ReservoirSettings(file_bytes=16_384, snapshot_interval=1, retained_versions=0)
    )
)


def test_a_reader_goes_on_when_its_pages_are_gone(data_dir: str):
    openings: list[Store] = []

    def opened(store: Store, name: str) -> strandline.Kv:
        openings.append(store)
        return store.kv(name)

    with strandline.open(data_dir, settings=KEEPING_LITTLE) as store:
        _write(store, range(3))
        with ReadOnlyView(ViewTarget(store_path=data_dir), "kv", "profiles", opened) as looking:
            before = looking.run(lambda kv: kv.get("0000"))
            _write(store, range(3, 13))

            after = looking.run(lambda kv: {entry.value for entry in kv.scan()})

    assert (before, after) == (b"2", {b"12"})
    assert len(openings) == 2


def test_a_question_is_asked_again_when_files_are_gone(data_dir: str):
    asked = []

    def question(store: Store) -> str:
        asked.append(store)
        if len(asked) < 3:
            raise FileNotFoundError("gone")
        return "answer"

    with strandline.open(data_dir) as store:
        _write(store, range(1))

    assert run_query(ViewTarget(store_path=data_dir), question) == "answer"
    assert len(asked) == 3


def _write(store: Store, values: range) -> None:
    """Give all keys these values, one after the other, and save the view with each."""
    keys = [b"%04d" % number for number in range(KEYS)]
    topic = store.topic("profiles")
    for value in values:
        topic.append_many([b"%d" % value] * KEYS, keys=keys)
        store.kv("profiles")
        store.checkpoint()
