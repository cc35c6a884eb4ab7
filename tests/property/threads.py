"""Threads that do something at once, and a host that is not careful with them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from strandline.records import AppendResult
from strandline.testing.linearizability import Operation
from strandline.views.view import ViewAppend
from strandline.views.view_runner import ViewRunner

JOIN_S = 120.0
UNKNOWN = "unknown"
"""What somebody was told whose store went away under him."""


def at_once(*bodies: Callable[[], object]) -> list[BaseException]:
    """Let threads do this at once; what has stopped them."""
    failures: list[BaseException] = []

    def guarded(body: Callable[[], object]) -> None:
        try:
            body()
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(body,), daemon=True) for body in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(JOIN_S)
    assert not any(thread.is_alive() for thread in threads), "somebody hangs"
    return failures


def ended(operations: Sequence[Operation], moment: int) -> list[Operation]:
    """With a store that was gone for good at this moment: what had not ended by then happened
    before it, or never, and what was asked later did not happen. Left open, it would have to be
    looked for in all that follows."""
    return [
        msgspec.structs.replace(each, returned=moment, response=UNKNOWN)
        if each.returned is None
        else each
        for each in operations
        if each.returned is not None or each.invoked < moment
    ]


def decide_without_the_lock(
    host: ViewRunner[Any], decision: Callable[[Any], ViewAppend | None]
) -> AppendResult | None:
    """A planted bug: others may come between a decision and its records."""
    with host.lock:
        host.catch_up()
        draft = decision(host.fold)
    if draft is None:
        return None
    time.sleep(0.001)
    with host.lock:
        appended = host._place(draft, None).wait()
        host.catch_up()
        return appended
