"""``strandline pipeline run materialize``: refreshes materialized queries."""

from __future__ import annotations

import msgspec

from strandline import errors, pipelines
from strandline.cli.engine_options import DEFAULT_TASK_ENGINE, TaskEngineOptions
from strandline.cli.open_store import open_to_read
from strandline.cli.options import VIEW_TARGET, Flag, ViewTarget
from strandline.cli.output import formatting
from strandline.cli.output.formatting import OutputRow, PreparedRow
from strandline.cli.output.output import print_report
from strandline.cli.output.progress import Steps
from strandline.errors import Invalid, StrandlineError


def materialize(
    *aliases: str,
    full: Flag = False,
    where: TaskEngineOptions = DEFAULT_TASK_ENGINE,
    target: ViewTarget = VIEW_TARGET,
) -> None:
    """Refresh materialized queries, from their position or from the beginning.

    Works while another process writes, which commits the delivered results. If that process
    refreshes the same query first, its result stays. SHOW then has few records left to read.

    Parameters
    ----------
    aliases
        Names of materialized queries, or patterns with `*`. Default: all.
    full
        Compute the whole result again.
    """
    if target.is_remote:
        raise Invalid(
            "materialize needs the directory of the store, not the URL of a server: run it "
            "where the store is, with --store; it works while the server runs"
        )
    path, lake = target.resolved.store, target.lake_url
    with Steps() as steps, open_to_read(path, lake, target.views_location) as store:
        summary = pipelines.materialize(
            store,
            aliases,
            full=full,
            engine=where.chooser(steps.show),
            progress=steps.show,
            lake=lake,
        )
    facts = {
        "store": formatting.plain(summary.store),
        "result": f"{summary.changed} of {len(summary.refreshed)} had new records"
        + (f", {len(summary.failed)} failed" if summary.failed else ""),
        "took": f"{summary.seconds:.1f} s",
    }
    queries: list[OutputRow] = [PreparedRow({}, _refreshed(each)) for each in summary.refreshed]
    failed: list[OutputRow] = [PreparedRow({}, _failed(each)) for each in summary.failed]
    parts = {"queries": queries} | ({"failed": failed} if failed else {})
    print_report(target.output, PreparedRow(msgspec.to_builtins(summary), facts), parts)
    if summary.failed:
        raise _as_error(summary.failed[0])


def _refreshed(each: pipelines.RefreshedQuery) -> dict[str, str | None]:
    return {
        "alias": each.alias,
        "computed": None if not each.engine else "everything" if each.full else "new records",
        "lag": str(each.behind),
        "rows": str(each.rows),
        "read": formatting.size(each.bytes_read),
        "engine": each.engine or None,
        "took": f"{each.seconds:.1f} s",
    }


def _failed(each: pipelines.FailedRefresh) -> dict[str, str]:
    return {"alias": each.alias, "error": each.error, "reason": formatting.plain(each.reason)}


def _as_error(failed: pipelines.FailedRefresh) -> StrandlineError:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    known = [kind for kind in kinds if issubclass(kind, StrandlineError)]
    for kind in known:
        if kind.code == failed.error and kind.__init__ is StrandlineError.__init__:
            return kind(f"{failed.alias}: {failed.reason}")
    return StrandlineError(f"{failed.alias}: {failed.reason}")
