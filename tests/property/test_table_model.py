"""Promise: whatever is done to a table, in any order, its rows are those of a plain list of events;
with flushes, merges, saves, new versions, deletes, reopenings, kills and rebuilds in between."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from strandline.views.table.condition import And, Compare, Condition, In, Not, Or
from strandline.views.table.evaluate import matches
from tests.unit.views.table.world import NAME, World, digest, rebuilt_digest

VERSIONS = (
    {"n": "i64", "cur": ["EUR", "USD"], "note": "string | null"},
    {"n": "i64", "cur": ["EUR", "USD", "CHF"], "note": "string | null", "tip": "f64 | null"},
    {"n": "f64", "cur": "string", "note": "string | null", "tip": "f64 | null"},
)
CONTEXTS = st.sampled_from(["a", "b", "c:1", "ä"])
NUMBERS = st.integers(-5, 5)
NOTES = st.none() | st.sampled_from(["", "x", "yy"])
LEAVES = st.one_of(
    st.builds(Compare, st.just("n"), st.sampled_from(["=", "!=", "<", ">="]), NUMBERS),
    st.builds(Compare, st.just("note"), st.sampled_from(["=", "!="]), NOTES),
    st.builds(Compare, st.just("context"), st.just("="), CONTEXTS),
    st.builds(In, st.just("cur"), st.just(("EUR",))),
)
CONDITIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.builds(And, st.tuples(inner, inner)),
        st.builds(Or, st.tuples(inner, inner)),
    ),
    max_leaves=3,
)


class TableMachine(RuleBasedStateMachine):
    """A table with small files, and the list of events that it should have."""

    @initialize(flush_rows=st.sampled_from([3, 8, 1000]))
    def begin(self, flush_rows):
        self.world = World()
        self.options = {"zone_rows": 256, "flush_rows": flush_rows}
        self.version = 0
        self.rows: list[dict[str, object]] = []
        self.misfits = 0
        self._open()
        self.table.define(VERSIONS[0])

    def teardown(self):
        if hasattr(self, "world"):
            self.world.store.close()

    def _open(self):
        self.table = self.world.store.table(NAME, **self.options)

    @rule(events=st.lists(st.tuples(CONTEXTS, NUMBERS, NOTES), min_size=1, max_size=12))
    def store(self, events):
        made = [{"n": n, "cur": "EUR" if n % 2 else "USD", "note": note} for _, n, note in events]
        first = self.table.store_many([context for context, _, _ in events], made).first_seq
        for place, (context, _, _) in enumerate(events):
            self.rows.append({"seq": first + place, "context": context, **made[place]})

    @rule(data=st.sampled_from([b"{}", b"no", b'{"n":1,"cur":"GBP2","note":5}']))
    def append_no_event(self, data):
        self.world.store.existing_topic(NAME).append(data, key=b"a")
        self.misfits += 1

    @precondition(lambda self: self.version + 1 < len(VERSIONS))
    @rule()
    def define(self):
        self.version += 1
        self.table.define(VERSIONS[self.version])

    @rule(where=CONDITIONS)
    def delete(self, where: Condition):
        gone = [row for row in self.rows if matches(where, row)]

        deleted = self.table.delete(where)

        assert deleted == len(gone)
        self.rows = [row for row in self.rows if row not in gone]

    @rule()
    def flush(self):
        self.table.flush()

    @rule()
    def merge(self):
        self.table.compact()

    @rule()
    def checkpoint(self):
        self.world.store.checkpoint()

    @rule(kill=st.booleans())
    def restart(self, kill):
        _ = self.world.kill() if kill else self.world.reopen()
        self._open()

    @rule()
    def rebuild(self):
        before = digest(self.world.store)

        assert rebuilt_digest(self.world.store) == before

    @rule(where=CONDITIONS)
    def ask(self, where: Condition):
        wanted = sorted(row["seq"] for row in self.rows if matches(where, row))

        found = self._read(where)

        assert sorted(row["seq"] for row in found if matches(where, row)) == wanted

    @invariant()
    def rows_are_those_of_the_list(self):
        if not hasattr(self, "table"):
            return
        fields = VERSIONS[self.version]
        wanted = [{"tip": None, **row} for row in self.rows] if "tip" in fields else self.rows

        found = sorted(self._read(None), key=lambda row: row["seq"])

        assert [{name: row[name] for name in ("seq", "context", *fields)} for row in found] == [
            {name: row[name] for name in ("seq", "context", *fields)} for row in wanted
        ]

    @invariant()
    def misfits_are_counted_once(self):
        if hasattr(self, "table"):
            assert self.table.statistics().misfits == self.misfits

    def _read(self, where: Condition | None) -> list[dict[str, object]]:
        view = self.table.snapshot()
        return [
            row
            for part in view.read(view.columns.names, where).tables()
            for row in part.to_pylist()
        ]


TestTable = TableMachine.TestCase
TestTable.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
