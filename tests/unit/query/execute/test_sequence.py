"""Promise: a sequence finds for every row of its first event the row that each step picks: the
earliest at or behind it, or the latest strictly in front; the same however it is calculated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from strandline.query.execute.duckdb_engine import DuckDbEngine
from strandline.query.execute.sequence import SequenceSide, matches, sort_matches
from strandline.query.execute.sequence_keys import encode_links
from strandline.query.language.bound_ast import BoundStep
from strandline.query.plan.compile import sql
from strandline.query.plan.plan import plan_of
from tests.unit.query.asking import BEGIN_US, HOUR_US, Tables, table
from tests.unit.store.world import World

VIEW = {"page": "string", "user": "string | null", "at_time": "datetime | null"}
PAY = {"amount": "f64", "user": "string | null", "at_time": "datetime | null"}


def _views(*rows: tuple[float, str | None]) -> Any:
    return table("view", VIEW, [_row(at, user, page=f"/{user}") for at, user in rows])


def _pays(*rows: tuple[float, str | None]) -> Any:
    return table("pay", PAY, [_row(at, user, amount=at) for at, user in rows])


def _row(at: float, user: str | None, **more: object) -> dict[str, Any]:
    return {"at": at, "user": user, "context": user or "nobody"} | more


def _pairs(tables: Tables, command: str) -> list[tuple[Any, ...]]:
    """The seqs of both events of each match."""
    result = tables.ask(command)
    names = [name for name in result.columns if name.endswith(".seq")]
    return [tuple(row[name] for name in names) for row in result]


FOLLOWED = "QUERY view FOLLOWED BY pay LINKED BY user"
PRECEDED = "QUERY view PRECEDED BY pay LINKED BY user"


def test_followed_by_takes_the_earliest_row_behind():
    tables = Tables(_views((1, "a")), _pays((0, "a"), (3, "a"), (2, "a")))

    assert _pairs(tables, FOLLOWED) == [(1, 3)]


def test_a_row_of_the_same_time_follows():
    tables = Tables(_views((1, "a")), _pays((2, "a"), (1, "a")))

    assert _pairs(tables, FOLLOWED) == [(1, 2)]


def test_of_equal_times_the_one_appended_first_follows():
    tables = Tables(_views((1, "a")), _pays((2, "a"), (2, "a")))

    assert _pairs(tables, FOLLOWED) == [(1, 1)]


def test_preceded_by_takes_the_latest_row_strictly_in_front():
    tables = Tables(_views((2, "a")), _pays((0, "a"), (1, "a"), (2, "a"), (3, "a")))

    assert _pairs(tables, PRECEDED) == [(1, 2)]


def test_of_equal_times_the_one_appended_last_precedes():
    tables = Tables(_views((2, "a")), _pays((1, "a"), (1, "a")))

    assert _pairs(tables, PRECEDED) == [(1, 2)]


def test_rows_of_another_link_do_not_match():
    tables = Tables(_views((1, "a"), (1, "b"), (1, "c")), _pays((2, "b"), (3, "a"), (3, "d")))

    assert _pairs(tables, FOLLOWED) == [(1, 2), (2, 1)]


def test_rows_without_a_link_never_match():
    tables = Tables(_views((1, None)), _pays((2, None)))

    assert _pairs(tables, FOLLOWED) == []


def test_a_row_can_be_in_several_matches():
    tables = Tables(_views((1, "a"), (2, "a")), _pays((3, "a")))

    assert _pairs(tables, FOLLOWED) == [(1, 1), (2, 1)]


@pytest.mark.parametrize(("within", "found"), [("1 HOURS", []), ("2 HOURS", [(1, 1)])])
def test_within_includes_its_end(within, found):
    tables = Tables(_views((1, "a")), _pays((3, "a")))

    assert _pairs(tables, f"QUERY view FOLLOWED BY pay WITHIN {within} LINKED BY user") == found


def test_each_step_goes_on_from_the_event_before_it():
    third = table("end", {"user": "string"}, [_row(2, "a"), _row(5, "a")])
    tables = Tables(_views((1, "a")), _pays((3, "a")), third)

    forth = "QUERY view FOLLOWED BY pay FOLLOWED BY end LINKED BY user"
    back = "QUERY view FOLLOWED BY pay PRECEDED BY end LINKED BY user"

    assert _pairs(tables, forth) == [(1, 1, 2)]
    assert _pairs(tables, back) == [(1, 1, 1)]


def test_no_row_follows_itself():
    tables = Tables(_views((1, "a"), (1, "a"), (2, "a")))

    assert _pairs(tables, "QUERY view FOLLOWED BY view LINKED BY user") == [(1, 2), (2, 3)]
    assert _pairs(tables, "QUERY view PRECEDED BY view LINKED BY user") == [(3, 2)]


def test_the_condition_of_an_event_holds_before_it_is_looked_for():
    tables = Tables(_views((1, "a")), _pays((2, "a"), (3, "a")))

    assert _pairs(tables, f"{FOLLOWED} WHERE pay.amount > 2") == [(1, 2)]


def test_a_condition_on_several_events_is_asked_of_what_was_found():
    tables = Tables(_views((1, "a")), _pays((2, "a"), (3, "a")))

    question = f'{FOLLOWED} WHERE view.page = "/none" OR pay.amount > 2'

    assert _pairs(tables, question) == []


def test_for_and_since_hold_for_every_event():
    tables = Tables(_views((1, "a"), (1, "b"), (3, "b")), _pays((2, "a"), (2, "b"), (4, "b")))

    assert _pairs(tables, f"{FOLLOWED} FOR a") == [(1, 1)]
    assert _pairs(tables, f'{FOLLOWED} SINCE "2026-01-01T03:00:00Z"') == [(3, 3)]


def test_matches_come_in_the_order_of_the_first_event_and_limit_counts_them():
    tables = Tables(_views((3, "a"), (1, "a"), (2, "b"), (1, "b")), _pays((9, "a"), (9, "b")))

    assert _pairs(tables, FOLLOWED) == [(2, 1), (4, 2), (3, 2), (1, 1)]
    assert _pairs(tables, f"{FOLLOWED} LIMIT 2 OFFSET 1") == [(4, 2), (3, 2)]


def test_matches_can_be_ordered_by_any_column():
    tables = Tables(_views((1, "a"), (2, "b")), _pays((3, "b"), (9, "a")))

    assert _pairs(tables, f"{FOLLOWED} ORDER BY pay.amount") == [(2, 1), (1, 2)]
    assert _pairs(tables, f"{FOLLOWED} ORDER BY pay.amount DESC LIMIT 1") == [(1, 2)]


def test_another_time_can_be_used_and_rows_without_it_are_left_out():
    views = [{"at": 1, "user": "a", "page": "/", "at_time": BEGIN_US + 9 * HOUR_US}]
    pays = [
        {"at": 2, "user": "a", "amount": 1.0, "at_time": BEGIN_US},
        {"at": 3, "user": "a", "amount": 1.0, "at_time": None},
        {"at": 4, "user": "a", "amount": 1.0, "at_time": BEGIN_US + 10 * HOUR_US},
    ]
    tables = Tables(table("view", VIEW, views), table("pay", PAY, pays))

    assert _pairs(tables, f"{FOLLOWED} USING at_time") == [(1, 3)]


def test_columns_of_all_events_are_shown_with_the_event_in_front():
    tables = Tables(_views((1, "a")), _pays((2, "a")))

    result = tables.ask(f"{FOLLOWED} RETURN [page, amount, pay.user]")

    assert result.rows() == [{"view.page": "/a", "pay.amount": 2.0, "pay.user": "a"}]


def test_matches_can_be_counted_and_grouped():
    tables = Tables(_views((1, "a"), (2, "a"), (1, "b"), (9, "b")), _pays((3, "a"), (4, "b")))

    assert tables.tuples(f"{FOLLOWED} COUNT") == [(3,)]
    assert tables.tuples(f"{FOLLOWED} COUNT, AVG amount BY page ORDER BY count DESC") == [
        ("/a", 2, 3.0),
        ("/b", 1, 4.0),
    ]


@pytest.mark.parametrize(
    ("left", "right", "value", "other"),
    [
        ("i64", "u64", 5, 5),
        ("u64", "f64", 2**63, 2.0**63),
        ("i64", "f64", -(2**63), -(2.0**63)),
        ("f64", "f64", 0.0, -0.0),
        ("string", '["x","y"]', "x", "x"),
    ],
)
def test_links_of_kinds_that_can_be_equal_are(left, right, value, other):
    tables = Tables(
        table("view", {"k": left}, [{"k": value}]), table("pay", {"k": right}, [{"k": other}])
    )

    assert _pairs(tables, "QUERY view FOLLOWED BY pay LINKED BY k") == [(1, 1)]


def test_numbers_of_two_kinds_that_only_round_to_the_same_float_do_not_match():
    tables = Tables(
        table("view", {"k": "u64"}, [{"k": 2**53 + 1}]),
        table("pay", {"k": "f64"}, [{"k": 2.0**53}]),
    )

    assert _pairs(tables, "QUERY view FOLLOWED BY pay LINKED BY k") == []


@pytest.mark.parametrize("count", [0, 1])
def test_an_event_without_rows_is_in_no_match(count):
    some = ((1, "a"),) * count

    assert _pairs(Tables(_views(*some), _pays()), FOLLOWED) == []
    assert _pairs(Tables(_views(), _pays(*some)), PRECEDED) == []


def _side(name: str, rows: int, seed: int) -> tuple[SequenceSide, pa.Table]:
    random = np.random.default_rng(seed)
    users = random.integers(0, 40, rows)
    link = pa.chunked_array([pa.array([None if user == 7 else f"u{user}" for user in users])])
    times = BEGIN_US + random.integers(0, 200, rows) * HOUR_US
    seqs = random.permutation(rows).astype(np.int64) + 1
    table_ = pa.table(
        {
            "seq": seqs.astype(np.uint64),
            "ts": pa.array(times, pa.timestamp("us")),
            "user": link,
        }
    )
    return SequenceSide(name, link, times, seqs), table_


@pytest.mark.parametrize("words", ["FOLLOWED BY", "PRECEDED BY"])
@pytest.mark.parametrize("events", [["a", "b"], ["a", "a"], ["a", "b", "a", "a"]])
def test_the_sql_of_a_sequence_finds_the_same_matches(words, events):
    """Thousands of rows with many equal times: what Spark is given, run by DuckDB."""
    data = {name: _side(name, 2000, seed) for seed, name in enumerate("ab")}
    tables = Tables(*(table(name, {"user": "string | null"}, []) for name in "ab"))
    sequence = f" {words} ".join(events[:-1]) + f" {words} {events[-1]} WITHIN 20 HOURS"
    bound = tables.bound(f"QUERY {sequence} LINKED BY user")
    plan = plan_of(bound)

    with DuckDbEngine(threads=2).session() as session:
        for scan in plan.scans:
            rows = data[scan.table][1].append_column("context", pa.array([""] * 2000))
            session.register(scan.relation, [rows.select(scan.columns)])
        found = session.query(sql(plan, "duckdb")).rename_columns(plan.names)
    sides = [data[name][0] for name in events]
    mine = matches(
        sides, [BoundStep(direction=s.direction, within_us=s.within_us) for s in bound.steps]
    )

    mine = sort_matches(sides[0], mine)
    assert len(mine[0]) > 100
    for event, side, rows in zip(bound.events, sides, mine, strict=True):
        assert found[f"{event.called}.seq"].to_pylist() == side.seqs[rows].tolist()


def _naive(first: SequenceSide, second: SequenceSide, step: BoundStep) -> list[tuple[int, int]]:
    """Seqs of matches, row by row."""
    found = []
    behind = step.direction == "followed"
    for link, time, seq in zip(first.link.to_pylist(), first.times, first.seqs, strict=True):
        others = [
            (int(at), int(other))
            for theirs, at, other in zip(
                second.link.to_pylist(), second.times, second.seqs, strict=True
            )
            if theirs == link is not None
        ]
        if not behind:
            fit = [each for each in others if each[0] < time]
        elif first.table == second.table:
            fit = [each for each in others if each > (time, seq)]
        else:
            fit = [each for each in others if each[0] >= time]
        if fit:
            found.append((int(seq), (min(fit) if behind else max(fit))[1]))
    return sorted(found)


@pytest.mark.parametrize("direction", ["followed", "preceded"])
@pytest.mark.parametrize("span", [7, 10**6, 2**63], ids=["equal", "plain", "wide"])
@pytest.mark.parametrize("names", ["aa", "ab"])
@pytest.mark.parametrize("parts", [1, 2, 5])
def test_rows_match_as_one_by_one_in_whatever_order_they_come(direction, span, names, parts):
    """Times of which few differ, and times that do not fit beside the links."""
    random = np.random.default_rng(11)
    sides = []
    for name, rows in zip(names, (80, 120), strict=True):
        link = pa.chunked_array([random.choice(["x", "y", "z", None], rows).tolist()], pa.string())
        times = random.integers(-(span // 2), span // 2 + 1, rows)
        sides.append(SequenceSide(name, link, times, random.permutation(rows) + 1))
    step = BoundStep(direction=direction)

    mine = matches(sides, [step], parts=parts)

    pairs = zip(sides[0].seqs[mine[0]], sides[1].seqs[mine[1]], strict=True)
    assert sorted((int(a), int(b)) for a, b in pairs) == _naive(*sides, step)


def _coded(rows: list[str | None], dictionary: pa.Array) -> pa.DictionaryArray:
    places = pc.index_in(pa.array(rows, pa.string()), value_set=dictionary)
    return pa.DictionaryArray.from_arrays(places, dictionary)


def test_links_with_a_dictionary_for_each_zone_are_those_of_the_text():
    first, second = pa.array(["y", "unused", "x"]), pa.array(["z", "x"])
    chunks = [
        _coded(["x", None, "y"], first),
        _coded(["z", "x"], second),
        _coded([], second),
        _coded(["x", "y"], first).slice(1),
    ]
    links = [pa.chunked_array(chunks), pa.chunked_array([["x", "z", None]], pa.string())]

    found = encode_links(links, [None, None])

    assert [each.tolist() for each in found.codes] == [[0, -1, -1, 1, 0, -1], [0, 1, -1]]
    assert found.different == 2


@pytest.mark.parametrize("coded", [False, True])
def test_links_are_those_of_the_rows_that_count(coded):
    few = pa.chunked_array([["a", "b"], ["c", None]], pa.string())
    many = pa.chunked_array([["c", "b", "a", "c", "b"]], pa.string())
    if coded:
        few, many = few.dictionary_encode(), many.dictionary_encode()

    found = encode_links([few, many], [np.array([False, True, True, True]), None])

    assert [each.tolist() for each in found.codes] == [[-1, 0, 1, -1], [1, 0, -1, 1, 0]]


@pytest.mark.parametrize("parts", [1, 3])
def test_rows_that_do_not_count_are_in_no_match(parts):
    link = pa.chunked_array([["x", "y", "z"] * 4])
    times, seqs = np.arange(12), np.arange(12) + 1
    first = SequenceSide("a", link, times, seqs, times < 3)
    second = SequenceSide("a", link, times, seqs, times >= 9)

    found = matches([first, second], [BoundStep(direction="followed")], parts=parts)

    assert sorted(zip(*(each.tolist() for each in found), strict=True)) == [
        (0, 9),
        (1, 10),
        (2, 11),
    ]


def test_missing_times_of_rows_that_do_not_count_do_no_harm():
    views = [
        {"at": at, "user": "a", "page": "/", "at_time": None if at == 2 else BEGIN_US + at}
        for at in (1, 2, 3)
    ]
    tables = Tables(table("view", VIEW, views))

    found = _pairs(tables, "QUERY view FOLLOWED BY view LINKED BY user USING at_time")

    assert found == [(1, 3)]


def test_an_event_without_a_condition_is_not_read_by_that_of_another_one():
    """Both are rows of one table, whose zones are ruled out."""
    world = World()
    steps = world.store.table("step", zone_rows=256)
    steps.define({"name": "string", "user": "u64"})
    steps.store_many("a", [{"name": "first", "user": user} for user in range(600)])
    steps.store_many("z", [{"name": "last", "user": user} for user in (3, 599)])
    steps.flush()

    asked = 'QUERY step FOLLOWED BY step LINKED BY user WHERE step2.name = "last"'
    found = world.store.run(f"{asked} RETURN [step.context, step.user]").tuples()

    assert found == [("a", 3), ("a", 599)]
    world.store.close()


def test_extreme_times_do_not_overflow():
    times = np.array([2**63 - 1, -(2**63), 0, -1], np.int64)
    link = pa.chunked_array([["x"] * 4])
    side = SequenceSide("a", link, times, np.arange(4) + 1)

    found = matches([side, side], [BoundStep(direction="followed")])

    assert list(zip(found[0].tolist(), found[1].tolist(), strict=True)) == [(1, 3), (2, 0), (3, 2)]
