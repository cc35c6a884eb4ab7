"""Promise: a task without a thread is done by its caller or left to it, and never done twice."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError

import pytest

from strandline.errors import Closed, Unavailable
from strandline.platform.thread_pool import ThreadPool, start_thread

DEADLINE_S = 30


@pytest.fixture(params=[RuntimeError("can't start new thread"), MemoryError()])
def refusing(request, monkeypatch):
    """A system that starts no threads, until the test undoes it."""

    def refuse(thread: threading.Thread) -> None:
        del thread
        raise request.param

    with monkeypatch.context() as context:
        context.setattr(threading.Thread, "start", refuse)
        yield context


def test_a_thread_that_cannot_be_started_raises_the_cause_and_can_be_started_later(refusing):
    done = threading.Event()
    thread = threading.Thread(target=done.set)

    with pytest.raises(Unavailable, match="ulimit -u"):
        start_thread(thread)
    refusing.undo()
    start_thread(thread)

    assert done.wait(DEADLINE_S)


def test_without_a_thread_the_caller_does_the_task_itself(refusing):
    with ThreadPool(2, "tested") as pool:
        future = pool.submit(threading.current_thread)

        assert future.result() is threading.current_thread()


def test_a_task_that_was_left_to_its_caller_is_not_done_when_a_thread_starts(refusing):
    done: list[str] = []
    with ThreadPool(1, "tested") as pool:
        assert pool.try_submit(done.append, "refused") is None
        refusing.undo()
        pool.submit(done.append, "taken").result(DEADLINE_S)

    assert done == ["taken"]


def test_an_error_of_a_task_reaches_who_waits_for_it():
    with ThreadPool(1, "tested") as pool, pytest.raises(ZeroDivisionError):
        pool.submit(divmod, 1, 0).result(DEADLINE_S)


def test_tasks_that_a_shutdown_cancels_are_cancelled_for_who_waits():
    pool, gate = ThreadPool(1, "tested"), threading.Event()
    first = pool.submit(gate.wait, DEADLINE_S)
    second = pool.submit(gate.wait, DEADLINE_S)

    pool.shutdown(wait=False, cancel_futures=True)
    gate.set()

    assert first.result(DEADLINE_S)
    with pytest.raises(CancelledError):
        second.result(DEADLINE_S)
    with pytest.raises(Closed):
        pool.submit(gate.wait)
