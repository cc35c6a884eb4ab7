"""Jobs whose ttl is over end when somebody looks.

That is before jobs are claimed, before a unique key is asked for, and in the upkeep. A job that is
in flight is left to its worker.
"""

from __future__ import annotations

from strandline.views.host import Host
from strandline.views.queue.codec import END, EXPIRED, Word
from strandline.views.queue.fold import QueueFold
from strandline.views.queue.settling import said
from strandline.views.view import Draft


def end_expired(fold: QueueFold, now_us: int) -> Draft | None:
    """What is to be said of jobs that have expired, None when there are none."""
    over = fold.jobs.board.expired(now_us)
    return said([Word(END, over, EXPIRED)]) if len(over) else None


def sweep(host: Host[QueueFold]) -> None:
    """End all jobs that have expired."""
    clock = host.world.clock

    def decision(fold: QueueFold) -> Draft | None:
        fold.look(clock.monotonic(), clock.now_us())
        return end_expired(fold, clock.now_us())

    while host.decide(decision) is not None:
        pass
