"""Promise: a query is ended from another thread, wherever it is, with the error that was given."""

from __future__ import annotations

import threading

import pytest

from strandline.errors import Unavailable
from strandline.query.execute.duckdb_engine import DuckDbEngine
from strandline.query.execute.interrupt import Interrupt, current, interruptible
from strandline.query.sql.sandbox import Sandbox
from strandline.query.sql.sql import sql, stream
from tests.unit.store.world import World

ENDLESS = "SELECT count(*) FROM range(100000000000000) t(i) WHERE i % 7 = 3"
TOO_LATE = Unavailable("too late")


def _ended_soon(interrupt: Interrupt) -> threading.Thread:
    """Stops again and again: what is not running yet forgets it."""
    ended = threading.Event()

    def stop() -> None:
        while not ended.wait(0.05):
            interrupt.stop(TOO_LATE)

    thread = threading.Thread(target=stop, daemon=True)
    thread.ended = ended  # type: ignore[attr-defined]
    thread.start()
    return thread


@pytest.fixture
def interrupt():
    interrupt = Interrupt()
    thread = _ended_soon(interrupt)
    yield interrupt
    thread.ended.set()
    thread.join()


def test_an_endless_question_of_the_engine_ends(interrupt):
    def ask() -> None:
        with interruptible(interrupt), DuckDbEngine().session() as session:
            session.query(ENDLESS)

    with pytest.raises(Unavailable, match="too late"):
        ask()


def test_an_endless_select_ends(interrupt):
    with pytest.raises(Unavailable, match="too late"), interruptible(interrupt):
        sql(World().store, ENDLESS)


def test_a_select_ends_while_its_rows_are_read(interrupt):
    def ask() -> None:
        text = "SELECT range FROM range(1000000000000)"
        with interruptible(interrupt), stream(World().store, text) as rows:
            for _ in rows:
                pass

    with pytest.raises(Unavailable, match="too late"):
        ask()


def test_a_query_that_was_stopped_does_not_begin():
    interrupt = Interrupt()
    interrupt.stop(TOO_LATE)
    interrupt.stop(Unavailable("even later"))

    for begin in (DuckDbEngine().session, Sandbox().open_database):
        with pytest.raises(Unavailable, match="too late"), interruptible(interrupt), begin():
            raise AssertionError("it began")


def test_a_query_without_an_interrupt_is_never_stopped():
    with interruptible(Interrupt()):
        assert sql(World().store, "SELECT 1").tuples() == [(1,)]
    current().check()
    assert current() is not current()
