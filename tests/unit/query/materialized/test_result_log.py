"""Promise: a commit counts as a whole or not at all, and of two on the same base only one does."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from strandline.errors import Conflict, TooLarge, UnsupportedFormat
from strandline.query.materialized import frame_codec
from strandline.query.materialized.manifest import FrameRun, QueryManifest, TableMark
from strandline.query.materialized.result_log import FRAME, FramesGone, ResultLog, ResultPiece
from tests.unit.store.world import World, read_all

COLUMNS = pa.schema([("n", pa.int64()), ("word", pa.string())])


def rows(*numbers: int) -> pa.Table:
    words = [f"word {number}" for number in numbers]
    return pa.table({"n": list(numbers), "word": words}, schema=COLUMNS)


def closing(position: int, *kept: FrameRun):
    def close(runs: tuple[FrameRun, ...]) -> QueryManifest:
        return QueryManifest(
            alias="a",
            text="QUERY t",
            kind="rows",
            shape="s",
            marks={"t": TableMark(position=position)},
            runs=(*kept, *runs),
            created_us=1,
            refreshed_us=2,
        )

    return close


def numbers_of(journal: ResultLog) -> list[int]:
    newest = journal.newest().manifest
    return [n for run in newest.runs for n in journal.load(run)["n"].to_pylist()]


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def journal(world: World) -> ResultLog:
    return ResultLog(world.store.topic("remembered:a"))


def test_a_new_topic_has_no_manifest(journal: ResultLog):
    newest = journal.newest()

    assert newest.manifest is None
    assert newest.cursor == 0


def test_what_was_committed_is_found_again(journal: ResultLog):
    journal.commit(journal.newest(), [ResultPiece(0, rows(1, 2, 3), newest_us=7)], closing(7))

    newest = journal.newest().manifest

    assert newest.marks["t"].position == 7
    assert [(run.rows, run.newest_us) for run in newest.runs] == [(3, 7)]
    assert numbers_of(journal) == [1, 2, 3]


def test_a_commit_may_keep_older_runs(journal: ResultLog):
    first = journal.commit(journal.newest(), [ResultPiece(0, rows(1))], closing(1))

    journal.commit(first, [ResultPiece(0, rows(2))], closing(2, *first.manifest.runs))

    assert numbers_of(journal) == [1, 2]


def test_of_two_commits_without_rows_on_one_base_only_one_counts(journal: ResultLog):
    base = journal.commit(journal.newest(), [ResultPiece(0, rows(1))], closing(1))
    journal.commit(base, [], closing(2, *base.manifest.runs))

    with pytest.raises(Conflict):
        journal.commit(base, [], closing(3, *base.manifest.runs))

    assert journal.newest().manifest.marks["t"].position == 2


def test_a_commit_without_rows_moves_the_mark_alone(journal: ResultLog):
    first = journal.commit(journal.newest(), [ResultPiece(0, rows(1))], closing(1))

    journal.commit(first, [], closing(9, *first.manifest.runs))

    assert journal.newest().manifest.marks["t"].position == 9
    assert numbers_of(journal) == [1]


def test_of_two_commits_on_one_base_the_second_is_refused(journal: ResultLog):
    base = journal.newest()
    journal.commit(base, [ResultPiece(0, rows(1))], closing(1))

    with pytest.raises(Conflict):
        journal.commit(base, [ResultPiece(0, rows(2))], closing(2))

    assert numbers_of(journal) == [1]


def test_frames_without_a_mark_count_for_nothing_and_are_let_go(journal: ResultLog):
    first = journal.commit(journal.newest(), [ResultPiece(0, rows(1))], closing(1))
    (frame,) = frame_codec.pack(rows(2), 10_000)
    journal.topic.append(frame, tag=FRAME, meta=str(first.cursor).encode())

    unfinished = journal.newest()
    journal.commit(unfinished, [ResultPiece(0, rows(3))], closing(3, *first.manifest.runs))

    assert unfinished.manifest == first.manifest
    assert numbers_of(journal) == [1, 3]
    assert [record.tag for record in read_all(journal.topic)] == ["frame", "frame", "mark"]


def test_frames_that_no_manifest_names_leave_the_topic(journal: ResultLog):
    first = journal.commit(journal.newest(), [ResultPiece(0, rows(1, 2))], closing(1))

    journal.commit(first, [ResultPiece(0, rows(1, 2, 3))], closing(2))

    assert [record.tag for record in read_all(journal.topic)] == ["frame", "mark"]
    with pytest.raises(FramesGone):
        journal.load(first.manifest.runs[0])


def test_a_large_table_is_many_frames_that_can_each_be_read(world: World):
    topic = world.store.topic("remembered:a")
    journal = ResultLog(topic, frame_bytes=1500)

    journal.commit(journal.newest(), [ResultPiece(0, rows(*range(3000)))], closing(1))

    records = read_all(topic)
    singly = [frame_codec.unpack([record.data]) for record in records[:-1]]
    assert len(singly) > 5
    assert max(len(record.data) for record in records[:-1]) <= 1500
    assert pa.concat_tables(singly)["n"].to_pylist() == list(range(3000))
    assert numbers_of(journal) == list(range(3000))


def test_a_row_that_no_frame_can_hold_is_refused(world: World):
    journal = ResultLog(world.store.topic("remembered:a"), frame_bytes=400)
    letters = "".join(chr(33 + number * 7 % 90) for number in range(3000))
    table = pa.table({"n": [1], "word": [letters + letters[::-1]]}, schema=COLUMNS)

    with pytest.raises(TooLarge, match="RETURN fewer fields"):
        journal.commit(journal.newest(), [ResultPiece(0, table)], closing(1))


def test_commits_survive_a_restart(world: World, journal: ResultLog):
    first = journal.commit(journal.newest(), [ResultPiece(0, rows(1))], closing(1))
    journal.commit(first, [ResultPiece(0, rows(2))], closing(2, *first.manifest.runs))

    again = ResultLog(world.reopen().topic("remembered:a"))

    assert numbers_of(again) == [1, 2]


def test_a_manifest_of_a_newer_version_is_not_guessed_at(journal: ResultLog):
    journal.topic.append(b'{"format":2,"what":"ever"}', tag="mark")

    with pytest.raises(UnsupportedFormat):
        journal.newest()


@pytest.mark.parametrize("seed", range(8))
def test_a_commit_goes_on_behind_a_tail_that_was_lost(world: World, journal: ResultLog, seed: int):
    first = journal.commit(journal.newest(), [ResultPiece(0, rows(1))], closing(1))
    world.store.sync()
    journal.commit(first, [ResultPiece(0, rows(2))], closing(2, *first.manifest.runs))
    world.disk.power_off()
    world.disk = world.disk.crash(random.Random(seed))
    world.store.close()
    world.store = world.open()
    again = ResultLog(world.store.topic("remembered:a"))

    found = again.newest()
    again.commit(found, [ResultPiece(0, rows(3))], closing(3, *found.manifest.runs))

    assert numbers_of(again)[0] == 1
    assert numbers_of(again)[-1] == 3
