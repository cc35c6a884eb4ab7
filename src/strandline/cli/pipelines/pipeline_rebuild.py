"""``strandline pipeline run rebuild`` and ``rollup``: views from their logs, and by their rules."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from cyclopts import Parameter

from strandline import pipelines
from strandline.cli.engine_options import HERE, Where
from strandline.cli.open_store import must_exist
from strandline.cli.options import VIEW_TARGET, Flag, ViewTarget
from strandline.cli.output import formatting
from strandline.cli.output.formatting import Made, Row
from strandline.cli.output.output import print_report
from strandline.cli.output.progress import Steps
from strandline.errors import Corrupt, Invalid

Rebuildable = Literal["kv", "queue", "series", "metrics", "table"]


def rebuild(
    kind: Rebuildable,
    name: str,
    /,
    *,
    compare: Annotated[Flag, Parameter(help="Only compare, which is the default.")] = False,
    replace: Annotated[
        Flag, Parameter(help="Put what was folded in the place of what the store has.")
    ] = False,
    where: Where = HERE,
    target: ViewTarget = VIEW_TARGET,
) -> None:
    """Fold a view from its log, and compare it with the saved one, or put it in its place.

    Works beside a process that writes, which takes over a view that is to be replaced and folds in
    what has come since. An event table is only compared. Killed, the next run goes on with what was
    done. Exit code 3 when a view is not what its log folds into.

    Parameters
    ----------
    kind
        kv, queue, series, metrics or table.
    name
        Name of the view.
    """
    if compare and replace:
        raise Invalid("either compare or replace: what is replaced is what the log folds into")
    must_exist(target.store)
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
    differing: list[Row] = [Made({}, _difference(each)) for each in summary.differences]
    json = msgspec.to_builtins(summary) | {"same": summary.same}
    print_report(target.output, Made(json, facts), {"differences": differing})
    if not summary.same:
        error = Corrupt(
            f"the {kind} view of {name!r} is not what its log folds into", path=target.store
        )
        command = "view rebuild table …" if kind == "table" else "pipeline run rebuild … --replace"
        error.add_note(f"`strandline {command}` puts what the log says there")
        raise error


def rollup(
    *views: str,
    where: Where = HERE,
    target: ViewTarget = VIEW_TARGET,
) -> None:
    """Apply the rules of series and measurements: make windows, drop what is too old.

    Works beside a process that writes, which appends what tasks have made. Killed, the next run
    goes on; a window is made once.

    Parameters
    ----------
    views
        Names of the views, or patterns with `*`; all without any.
    """
    must_exist(target.store)
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
        "result": f"{sum(rule.points for rule in summary.rules)} points made",
        "records": f"{summary.records_before} before, {summary.records_after} after",
        "took": f"{summary.seconds:.1f} s, {summary.engine}",
    }
    rules: list[Row] = [Made({}, _rule(each)) for each in summary.rules]
    print_report(target.output, Made(msgspec.to_builtins(summary), facts), {"rules": rules})


def _rule(found: pipelines.RolledRule) -> dict[str, str]:
    return {
        "view": found.view,
        "from": found.source,
        "into": found.into,
        "points": str(found.points),
    }


def _result(summary: pipelines.RebuildSummary) -> str:
    if summary.replaced:
        return "replaced by what the log folds into"
    if summary.same:
        return f"the same, {summary.parts} parts in {summary.ranges} ranges"
    return f"{len(summary.differences)} of {summary.ranges} ranges differ"


def _position(summary: pipelines.RebuildSummary) -> str:
    return " and ".join(map(str, summary.position))


def _difference(found: pipelines.Difference) -> dict[str, str]:
    return {
        "from": formatting.plain(found.first),
        "log": str(found.rebuilt),
        "view": str(found.live),
        "differing": str(found.differing),
        "first": formatting.plain(", ".join(found.names)),
    }
