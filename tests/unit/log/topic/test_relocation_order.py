"""Promise (D3, D8): no step of a relocation is taken before the one that makes it safe."""

from __future__ import annotations

import random

from tests.unit.log.topic.cold_world import ColdWorld, seqs_of


def test_no_local_copy_is_let_go_before_the_commit():
    world = ColdWorld()
    topic = world.store.topic("t")
    world.fill(topic, 4)
    seen: list[tuple[int, int]] = []

    def look(operation: str, key: str) -> None:
        if operation == "create" and "/manifest/" in key and not key.endswith("1.json"):
            state = topic._state
            seen.append((state.runs[0].first_seq, 0 if state.cold is None else state.cold.last_seq))

    world.objects.on_call = look
    world.store.relocate()

    assert seen == [(1, 0), (101, 100), (201, 200)]


def test_the_lake_is_not_told_of_a_delete_that_a_power_loss_undoes():
    world = ColdWorld()
    topic = world.cold_topic()
    topic.delete(before=150)
    crashed = []

    def lose_power(operation: str, key: str) -> None:
        if operation == "create" and "/manifest/" in key and not crashed:
            crashed.append(world.disk.crash(random.Random(1)))

    world.objects.on_call = lose_power
    world.store.relocate()
    world.objects.on_call = None
    world.disk = crashed[0]
    world.store = world.open()
    world.store.relocate()

    topic = world.store.topic("t")
    assert seqs_of(topic) == list(range(150, 501))
