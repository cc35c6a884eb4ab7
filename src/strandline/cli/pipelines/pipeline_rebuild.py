"""``strandline pipeline run rebuild`` and ``rollup``: rebuild views from logs, apply rules."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from cyclopts import Parameter

from strandline import pipelines
from strandline.cli.engine_options import DEFAULT_TASK_ENGINE, TaskEngineOptions
from strandline.cli.open_store import check_store_exists
from strandline.cli.options import VIEW_TARGET, Flag, ViewTarget
from strandline.cli.output import formatting
from strandline.cli.output.formatting import OutputRow, PreparedRow
from strandline.cli.output.output import print_report
from strandline.cli.output.progress import Steps
from strandline.errors import Corrupt, Invalid

Rebuildable = Literal["kv", "queue", "series", "metrics", "table"]


def rebuild(
    kind: Rebuildable,
    name: str,
    /,
    *,
    compare: Annotated[Flag, Parameter(help="Only compare (the default).")] = False,
    replace: Annotated[
        Flag, Parameter(help="Replace the view of the store with the rebuilt one.")
    ] = False,
    where: TaskEngineOptions = DEFAULT_TASK_ENGINE,
    target: ViewTarget = VIEW_TARGET,
) -> None:
    """Rebuild a view from its log, and compare it with the saved one or replace that.

    Works while another process writes, which installs the rebuilt view and applies the records that
    were appended since. An event table is only compared. After a kill, the next run resumes with
    the finished tasks. Exit code 3 if a view differs from its log.

    Parameters
    ----------
    kind
        kv, queue, series, metrics or table.
    name
        Name of the view.
    """
    if compare and replace:
        raise Invalid("give --compare or --replace, not both")
    check_store_exists(target.store)
    with Steps() as steps:
        summary = pipelines.rebuild(
            target.store,
            kind,
            name,
            replace=replace,
            engine=where.chooser(steps.show),
            lake=target.lake_url,
            views_url=target.views_url,
            progress=steps.show,
        )
    facts = {
        "view": f"{kind} {name}",
        "result": _result(summary),
        "folded": f"{summary.records} records, up to {formatting.plain(_position(summary))}",
        "took": f"{summary.seconds:.1f} s, {summary.engine}",
    }
    if summary.replaced:
        facts["loaded"] = f"{summary.pages} pages in {summary.load_seconds:.1f} s"
    differences: list[OutputRow] = [
        PreparedRow({}, _difference(each)) for each in summary.differences
    ]
    json = msgspec.to_builtins(summary) | {"same": summary.same}
    print_report(target.output, PreparedRow(json, facts), {"differences": differences})
    if not summary.same:
        error = Corrupt(f"the {kind} view of {name!r} differs from its log", path=target.store)
        command = "view rebuild table …" if kind == "table" else "pipeline run rebuild … --replace"
        error.add_note(f"`strandline {command}` replaces it from the log")
        raise error


def rollup(
    *views: str,
    where: TaskEngineOptions = DEFAULT_TASK_ENGINE,
    target: ViewTarget = VIEW_TARGET,
) -> None:
    """Apply the rules of series and measurements: compute windows, remove old points.

    Works while another process writes, which appends the results of the tasks. After a kill, the
    next run resumes; a window is computed once.

    Parameters
    ----------
    views
        Names of the views, or patterns with `*`. Default: all.
    """
    check_store_exists(target.store)
    with Steps() as steps:
        summary = pipelines.rollup(
            target.store,
            views,
            engine=where.chooser(steps.show),
            lake=target.lake_url,
            views_url=target.views_url,
            progress=steps.show,
        )
    facts = {
        "views": str(summary.views),
        "result": f"{sum(rule.points for rule in summary.rules)} points computed",
        "records": f"{summary.records_before} before, {summary.records_after} after",
        "took": f"{summary.seconds:.1f} s, {summary.engine}",
    }
    rules: list[OutputRow] = [PreparedRow({}, _rule(each)) for each in summary.rules]
    print_report(target.output, PreparedRow(msgspec.to_builtins(summary), facts), {"rules": rules})


def _rule(rule: pipelines.RolledRule) -> dict[str, str]:
    return {
        "view": rule.view,
        "from": rule.source,
        "into": rule.into,
        "points": str(rule.points),
    }


def _result(summary: pipelines.RebuildSummary) -> str:
    if summary.replaced:
        return "replaced by the rebuilt view"
    if summary.same:
        return f"the same, {summary.parts} parts in {summary.ranges} ranges"
    return f"{len(summary.differences)} of {summary.ranges} ranges differ"


def _position(summary: pipelines.RebuildSummary) -> str:
    return " and ".join(map(str, summary.position))


def _difference(difference: pipelines.Difference) -> dict[str, str]:
    return {
        "from": formatting.plain(difference.first),
        "log": str(difference.rebuilt),
        "view": str(difference.live),
        "differing": str(difference.differing),
        "first": formatting.plain(", ".join(difference.names)),
    }
