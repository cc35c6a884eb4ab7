"""Promise: what a store could not take of a pipeline is told until it is read or a week is over."""

from __future__ import annotations

from pathlib import Path

from strandline.ingest import rejected
from strandline.ingest import view_handoff_codec as handovers
from strandline.ingest.delivery_job import LEFTOVER_S
from strandline.ingest.view_handoff_codec import ViewHandoff
from strandline.platform.objectstore.cloud import open_objects
from tests.unit.store.world import PATH, World


def hand_over(world: World, name: str) -> None:
    """A request of a pipeline that nobody waits for any more."""
    made = ViewHandoff(
        store_id=world.store.id, kind="kv", name=name, attempt=f"attempt-{name}", made_us=1
    )
    folder = open_objects(f"{PATH}/incoming", disk=world.disk)
    folder.create(made.key(), handovers.encode(made), writer=made.attempt)


def told(world: World) -> str:
    return " ".join(world.store.health().reasons)


def test_what_was_refused_is_told_and_goes_after_a_week():
    world = World()
    world.store.kv("profiles").put("ada", b"x")
    hand_over(world, "profiles")
    hand_over(world, "nobody")

    taken = world.store.ingest_pending()
    first = told(world)
    world.clock.advance(2 * LEFTOVER_S)
    world.store.ingest_pending()

    assert taken == 1
    assert "the handoff for view 'nobody' was rejected" in first
    assert "rejected" not in told(world)
    assert world.disk.list_dir(f"{PATH}/incoming/{handovers.REFUSED}") == []
    assert "nobody" not in world.store.topics(), "nothing is made for it"


def test_only_what_has_been_there_for_long_is_swept(tmp_path: Path):
    folder = open_objects(str(tmp_path))
    folder.put("views-refused/a.json", b"{}")
    (info,) = folder.list(handovers.REFUSED)

    rejected.delete_old(folder, handovers.REFUSED, info.modified_us)
    kept = [each.key for each in folder.list(handovers.REFUSED)]
    rejected.delete_old(folder, handovers.REFUSED, info.modified_us + 1)

    assert kept == ["views-refused/a.json"]
    assert list(folder.list(handovers.REFUSED)) == []
