"""Promise: whatever happens to its tables, SHOW says what the query would say if it were asked
afresh, and whoever applies all changes has the same; also when several look at once.

Events stored and deleted, new versions of schemas, files written and merged, saves, restarts and
kills, tables made anew, and SHOWs, refreshes and followers in between, of queries of all shapes.
"""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tests.property.threads import at_once
from tests.unit.query.materialized.world import Machine, alike

SELECTIONS = (
    "QUERY pay",
    'QUERY pay RETURN [n, user] WHERE n > 3 AND NOT cur = "USD"',
    "QUERY pay FOR c1 RETURN [n, amount]",
    "QUERY pay RETURN [n] ORDER BY user DESC",
    "QUERY pay RETURN [n] ORDER BY amount LIMIT 4 OFFSET 2",
    "QUERY pay RETURN [n] LIMIT 6 OFFSET 1",
)
FIGURES = (
    "QUERY pay COUNT, TOTAL n, AVG amount, MIN user, MAX n",
    "QUERY pay COUNT, TOTAL amount BY cur, user",
    "QUERY pay COUNT UNIQUE user, AVG n PER HOUR BY cur",
    "QUERY pay COUNT UNIQUE n, COUNT UNIQUE user WHERE n != 2",
    "QUERY pay COUNT BY user ORDER BY count DESC LIMIT 2",
)
SEQUENCES = ("QUERY pay FOLLOWED BY view RETURN [pay.n, view.n]",)
NUMBERS = st.integers(0, 12)
EVENTS = st.lists(
    st.tuples(
        NUMBERS,
        st.one_of(st.none(), st.sampled_from((0.5, -2.25, 3.0, 1e6))),
        st.sampled_from((None, "", "ada", "bob")),
    ),
    min_size=1,
    max_size=6,
)
WIDER = ({"n": "f64"}, {"more": "string | null"}, {"cur": ["EUR", "USD", "GBP"]})


class RememberedMachine(RuleBasedStateMachine):
    """A store with two tables and three remembered queries, and a follower for each."""

    @initialize(
        chosen=st.tuples(
            st.sampled_from(SELECTIONS), st.sampled_from(FIGURES), st.sampled_from(SEQUENCES)
        ),
        events=EVENTS,
    )
    def begin(self, chosen, events):
        self.machine = Machine(frame_bytes=4096)
        self.store_events(events)
        self.queries = dict(zip(("rows", "figures", "sequence"), chosen, strict=True))
        self.told = {alias: Counter() for alias in self.queries}
        self.cursors = dict.fromkeys(self.queries, "")
        for alias, text in self.queries.items():
            self.machine.remember(alias, text)

    def teardown(self):
        if hasattr(self, "machine"):
            self.machine.store.close()

    @rule(events=EVENTS)
    def store_events(self, events):
        table = self.machine.table("pay")
        for n, amount, user in events:
            cur = "USD" if n % 2 else "EUR"
            table.store(f"c{n % 3}", {"n": n, "amount": amount, "cur": cur, "user": user})

    @rule(n=NUMBERS)
    def store_views(self, n):
        self.machine.table("view").store(f"c{n % 3}", {"page": "/", "n": n})

    @rule(n=NUMBERS)
    def store_something_else(self, n):
        self.machine.store.topic("pay").append(b'{"n":"not a number"}', key=f"c{n}")

    @rule(n=NUMBERS, event=st.sampled_from(("pay", "view")))
    def delete(self, n, event):
        self.machine.delete(f"DELETE {event} WHERE n = {n}")

    @rule(change=st.sampled_from(WIDER))
    def define(self, change):
        table = self.machine.table("pay")
        table.define(table.schema.fields | change)

    @rule(seconds=st.sampled_from((1, 1800, 90_000)))
    def wait(self, seconds):
        self.machine.world.clock.advance(seconds)

    @rule()
    def write_files(self):
        self.machine.table("pay").flush()
        self.machine.table("pay").compact()

    @rule(how=st.sampled_from(("checkpoint", "reopen", "kill", "rebuild")))
    def restart(self, how):
        if how == "checkpoint":
            self.machine.store.checkpoint()
        elif how == "rebuild":
            self.machine.store.rebuild("table", "pay")
        else:
            getattr(self.machine.world, how)()

    @rule(alias=st.sampled_from(("rows", "figures", "sequence")), full=st.booleans())
    def refresh(self, alias, full):
        self.machine.remembered.refresh(alias, full=full)

    @rule(alias=st.sampled_from(("rows", "figures", "sequence")))
    def show(self, alias):
        shown, asked = self.machine.show(alias), self.machine.fresh(self.queries[alias])

        assert alike(shown, asked), (self.queries[alias], shown.rows(), asked.rows())

    @rule(alias=st.sampled_from(("rows", "figures", "sequence")))
    def follow(self, alias):
        following = self.machine.remembered.follow(alias, self.cursors[alias], timeout_s=0)
        for change in following:
            if change.full:
                self.told[alias] = Counter()
            self.told[alias] = self.told[alias] - rows_of(change.removed) + rows_of(change.added)
            self.cursors[alias] = change.cursor

        assert self.told[alias] == rows_of(self.machine.show(alias).arrow())


def rows_of(table) -> Counter[tuple[object, ...]]:
    """Rows without their order; sums of doubles may differ in their last digits."""
    return Counter(
        tuple(round(value, 6) if isinstance(value, float) else value for value in row.values())
        for row in table.to_pylist()
    )


TestRemembered = RememberedMachine.TestCase
TestRemembered.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)


@pytest.mark.parametrize("text", [SELECTIONS[0], SELECTIONS[4], FIGURES[1], FIGURES[2]])
def test_several_who_show_at_once_see_no_row_twice_and_miss_none(text: str):
    machine = Machine(frame_bytes=4096)
    machine.remember("a", text)
    torn = []

    def write() -> None:
        for n in range(40):
            machine.pay(n)

    def look() -> None:
        remembered = machine.remembered
        for _ in range(15):
            before = machine.table("pay").snapshot().position
            shown = remembered.show("a")
            after = machine.table("pay").snapshot().position
            if not any(alike(shown, asked(p)) for p in range(before, after + 1)):
                torn.append(shown.rows())

    def asked(position: int):
        return machine.fresh(text, as_of=position)

    failures = at_once(write, look, look, look)

    assert failures == []
    assert torn == []
    assert alike(machine.show("a"), machine.fresh(text))
