"""Accepts windows of a downsampling rule that another process computed.

The other process read the log up to a position. Its windows are valid if the rule is the same, its
progress is the same, and no later record has points of these windows: the records after the
position are checked for that. Decision and append are one step (``views/view_runner.py``), so a
window is computed once and from all its points, whichever process computes it. Windows that are
no longer valid are not appended; the view computes them itself.
"""

from __future__ import annotations

from strandline.views.metrics.fold import MetricsFold
from strandline.views.metrics.ingest.batch import PointRow
from strandline.views.metrics.ingest.record_codec import WrittenPoints, decode_record
from strandline.views.rollup_windows import RollupWindows
from strandline.views.view import ViewAppend
from strandline.views.view_runner import ViewRunner

_ROWS_AT_ONCE = 10_000


def append_external_windows(
    host: ViewRunner[MetricsFold], windows: RollupWindows, draft: ViewAppend
) -> bool:
    """Append windows if they are still valid. Return whether they were appended."""

    def decide(fold: MetricsFold) -> ViewAppend | None:
        standing = fold.standings.find("downsample", windows.into)
        if standing is None or standing.seq != windows.version or standing.until != windows.after:
            return None
        return None if _has_changed(host, windows) else draft

    return host.decide(decide) is not None


def _has_changed(host: ViewRunner[MetricsFold], windows: RollupWindows) -> bool:
    """Whether a record after their position has points of these windows."""
    cursor, head = windows.position, host.applied[0]
    while cursor < head:
        page = host.topics[0].read(cursor, _ROWS_AT_ONCE)
        columns = page.columns()
        for meta, data, ts in zip(columns.metas, columns.data, columns.stamps, strict=True):
            content = decode_record(meta, data, ts)
            if isinstance(content, PointRow):
                if (
                    content.measurement == windows.source
                    and windows.first <= content.at < windows.until
                ):
                    return True
            elif isinstance(content, WrittenPoints):
                for table in content.tables:
                    inside = (table.at >= windows.first) & (table.at < windows.until)
                    if table.measurement == windows.source and bool(inside.any()):
                        return True
        cursor = page.next
    return False
