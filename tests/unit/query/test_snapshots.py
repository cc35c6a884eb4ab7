"""Promise: a question is bound to the schema of what it reads; tables are seen at one moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from strandline.query.language.binding import bind
from strandline.query.language.parser import parse
from strandline.query.snapshots import bind_to_snapshots
from tests.unit.store.world import World


class Interrupted:
    """A store in which something happens between two looks at its tables."""

    def __init__(self, store: Any, after: str, happens: Callable[[], object]) -> None:
        self.store = store
        self.existing_topic = store.existing_topic
        self._after = after
        self._happens: Callable[[], object] | None = happens

    def table(self, name: str, **_: object) -> Any:
        table, parent = self.store.table(name), self

        class Handle:
            def snapshot(self, as_of: int | None = None) -> Any:
                seen = table.snapshot(as_of)
                happens, parent._happens = parent._happens, None
                if happens is not None and name == parent._after:
                    happens()
                else:
                    parent._happens = happens
                return seen

        return Handle()


def _ask(store: Any, text: str) -> tuple[Any, Any]:
    return bind_to_snapshots(store, lambda schemas: bind(parse(text), schemas, text))


def test_a_version_that_comes_while_a_question_is_bound_is_not_in_its_answer():
    store = World().store
    table = store.table("pay")
    table.define({"n": "i64"})
    table.store("u", {"n": 1})

    def redefine() -> None:
        table.define({"n": "i64", "more": "string | null"})
        table.store("u", {"n": 2, "more": "x"})

    bound, sight = _ask(Interrupted(store, "pay", redefine), "QUERY pay")

    assert [column.field for column in bound.columns] == ["seq", "ts", "context", "n"]
    assert sight.snapshot("pay").schema.version == 1
    assert sight.snapshot("pay").rows == 1


def test_a_sequence_sees_no_second_event_without_the_first_one_of_before():
    store = World().store
    for name in ("a", "b"):
        store.table(name).define({"user": "string"})

    def happens() -> None:
        store.table("a").store("c", {"user": "u"})
        store.table("b").store("c", {"user": "u"})

    text = "QUERY a FOLLOWED BY b LINKED BY user"
    _, sight = _ask(Interrupted(store, "a", happens), text)

    assert (sight.snapshot("a").rows, sight.snapshot("b").rows) == (1, 1)


def test_a_version_that_comes_before_the_moment_is_bound_anew():
    store = World().store
    for name in ("a", "b"):
        store.table(name).define({"user": "string"})

    def redefine() -> None:
        store.table("a").define({"user": "string", "more": "i64 | null"})

    bound, sight = _ask(Interrupted(store, "b", redefine), "QUERY a FOLLOWED BY b LINKED BY user")

    assert bound.events[0].schema == sight.snapshot("a").schema
    assert sight.snapshot("a").schema.version == 2
