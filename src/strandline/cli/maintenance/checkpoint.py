"""``strandline checkpoint``: move the log into segments now."""

from __future__ import annotations

import time

from strandline.cli.open_store import open_to_write
from strandline.cli.options import TARGET, Target
from strandline.cli.output.formatting import PreparedRow
from strandline.cli.output.output import output


def checkpoint(*, target: Target = TARGET) -> None:
    """Move records from the log into segments.

    Shared segments that are large or old enough are sealed.
    A store does this by itself; the command makes the next opening faster.
    """
    with open_to_write(target.store, create=False, lake_url=target.lake_url) as store:
        started_at = time.monotonic()
        store.checkpoint()
        seconds = round(time.monotonic() - started_at, 3)
        topics = len(store.topics())
        row = PreparedRow(
            {"checkpointed": True, "topics": topics, "seconds": seconds},
            {"checkpointed": "yes", "topics": str(topics), "seconds": f"{seconds:.3f}"},
        )
        output(target.output).one(row)
