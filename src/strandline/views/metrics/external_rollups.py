"""Takes windows of a rule that were made elsewhere, as if they had been made here.

Whoever made them looked at the log up to a position. They still hold when the rule is the same and
as far as it was then, and no point of these windows has come since: that is looked up in the
records behind the position. Decision and append are one step, as always
(``views/view_runner.py``), so a
window is made once, and of all its points, whoever makes it. What no longer holds is not appended;
the view makes those windows itself.
"""

from __future__ import annotations

from strandline.views.metrics.fold import MetricsFold
from strandline.views.metrics.ingest.batch import Row
from strandline.views.metrics.ingest.record_codec import Written, meaning
from strandline.views.rollup_windows import MadeWindows
from strandline.views.view import Draft
from strandline.views.view_runner import Host

_ROWS_AT_ONCE = 10_000


def accept(host: Host[MetricsFold], made: MadeWindows, draft: Draft) -> bool:
    """Append windows that still hold; whether they were."""

    def decision(fold: MetricsFold) -> Draft | None:
        standing = fold.standings.find("downsample", made.into)
        if standing is None or standing.seq != made.version or standing.until != made.after:
            return None
        return None if _has_changed(host, made) else draft

    return host.decide(decision) is not None


def _has_changed(host: Host[MetricsFold], made: MadeWindows) -> bool:
    """Whether points of these windows have come since they were made."""
    cursor, head = made.position, host.applied[0]
    while cursor < head:
        page = host.topics[0].read(cursor, _ROWS_AT_ONCE)
        found = page.columns()
        for meta, data, ts in zip(found.metas, found.data, found.stamps, strict=True):
            said = meaning(meta, data, ts)
            if isinstance(said, Row):
                if said.measurement == made.source and made.first <= said.at < made.until:
                    return True
            elif isinstance(said, Written):
                for table in said.tables:
                    inside = (table.at >= made.first) & (table.at < made.until)
                    if table.measurement == made.source and bool(inside.any()):
                        return True
        cursor = page.next
    return False
