"""``strandline pipeline``: pipelines over a lake or a store, in this process or on Spark.

Pipelines do not need the lock of the store, so they run while another process writes. Imports,
exports, rebuilds, rollups, materialized queries and declared pipelines are in the modules
``pipeline_*`` of this package.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Annotated

import msgspec
from cyclopts import App, Parameter

from strandline import pipelines
from strandline.cli.engine_options import DEFAULT_TASK_ENGINE, TaskEngineOptions
from strandline.cli.open_store import check_store_exists
from strandline.cli.options import TARGET, VIEW_TARGET, Flag, Target, ViewTarget, byte_count
from strandline.cli.output import formatting
from strandline.cli.output.formatting import OutputRow, PreparedRow
from strandline.cli.output.output import print_report
from strandline.cli.output.progress import Steps
from strandline.cli.pipelines import (
    lake,
    pipeline_import_export,
    pipeline_materialize,
    pipeline_rebuild,
    pipeline_schedule,
)
from strandline.config.settings import MIB, LakeSettings
from strandline.errors import Corrupt, Invalid

app = App(name="pipeline")
run = App(name="run", help="Run a pipeline. After a kill, the same command resumes it.")
app.command(run)
run.command(pipeline_import_export.import_files, name="import")
run.command(pipeline_import_export.export, name="export")
run.command(pipeline_materialize.materialize, name="materialize")
app.command(pipeline_schedule.list_pipelines, name="ls", alias="list")
app.command(pipeline_schedule.schedule)
app.command(pipeline_schedule.runs)
run.command(pipeline_rebuild.rebuild, name="rebuild")
run.command(pipeline_rebuild.rollup, name="rollup")


@run.command
def compact(
    *topics: str,
    file_bytes: Annotated[
        str, Parameter(metavar="SIZE")
    ] = f"{LakeSettings().file_bytes // MIB}MiB",
    dead_share: float = round(LakeSettings().dead_share, 2),
    keyed: Flag = False,
    dry_run: Flag = False,
    where: TaskEngineOptions = DEFAULT_TASK_ENGINE,
    target: ViewTarget = VIEW_TARGET,
) -> None:
    """Merge small files of the lake into large ones, without removed rows.

    Works while another process writes. The old files stay readable for a day.

    Parameters
    ----------
    topics
        Names of topics, or patterns with `*`. Default: all.
    file_bytes
        Target size of the payload of a file.
    dead_share
        Rewrite a file if more than this share of its rows is removed, whatever its size.
    keyed
        First trim superseded versions and deleted keys of key-value topics; needs the
        directory of the store.
    dry_run
        Only report what would be done.
    """
    settings = LakeSettings(file_bytes=byte_count(file_bytes), dead_share=dead_share)
    summary = _compact(topics, settings, where, target, keyed=keyed, dry_run=dry_run)
    facts = {
        "lake": formatting.plain(summary.lake),
        "result": _compacted(summary),
        "files": f"{summary.files_before} before, {summary.files_after} after",
        "rows": f"{summary.rows_after}, {summary.rows_dropped} dropped",
        "size": f"{formatting.size(summary.bytes_before)} before, "
        + ("not known yet" if dry_run else f"{formatting.size(summary.bytes_after)} after"),
        "took": f"{summary.seconds:.1f} s, {summary.engine}",
    }
    if keyed:
        facts["removed"] = f"{summary.released_records} records that no key-value view needs"
    skipped: list[OutputRow] = [PreparedRow({}, _skipped(each)) for each in summary.skipped]
    print_report(
        target.output, PreparedRow(msgspec.to_builtins(summary), facts), {"skipped": skipped}
    )
    if summary.damaged:
        first = summary.damaged[0]
        error = Corrupt(first.reason, path=summary.lake)
        error.add_note("`strandline pipeline run scrub` lists all damage in the lake")
        raise error


@run.command
def scrub(
    *topics: str,
    no_local: Flag = False,
    dry_run: Flag = False,
    where: TaskEngineOptions = DEFAULT_TASK_ENGINE,
    target: Target = TARGET,
) -> None:
    """Read every byte of the lake and of the store, and report damage.

    Changes nothing, and works while another process writes. Exit code 3 if something is damaged;
    an open store repairs by itself what it has another copy of.

    Parameters
    ----------
    topics
        Names of topics in the lake, or patterns with `*`. Default: all.
    no_local
        Skip checkpoints, log and segments of the store.
    dry_run
        Only report how much would be read.
    """
    store = os.path.abspath(target.store)
    local = os.path.isfile(f"{store}/SYSTEM") and not no_local
    with Steps() as steps:
        summary = pipelines.scrub(
            lake.url_of(target),
            topics,
            engine=where.chooser(steps.show),
            store=store if local else "",
            dry_run=dry_run,
            progress=steps.show,
        )
    verdict = "good" if summary.ok else f"{len(summary.findings)} problems"
    facts = {
        "lake": formatting.plain(summary.lake),
        "result": "nothing was read" if dry_run else verdict,
        "read": f"{summary.files} files of {summary.topics} topics and {summary.local_files} local "
        f"ones, {formatting.size(summary.bytes_read)}",
        "took": f"{summary.seconds:.1f} s, {summary.engine}",
    }
    findings: list[OutputRow] = [PreparedRow({}, _finding(each)) for each in summary.findings]
    json = msgspec.to_builtins(summary) | {"ok": summary.ok}
    print_report(target.output, PreparedRow(json, facts), {"findings": findings})
    if summary.findings:
        raise _damaged(summary.findings)


def _compact(
    topics: Sequence[str],
    settings: LakeSettings,
    where: TaskEngineOptions,
    target: ViewTarget,
    *,
    keyed: bool,
    dry_run: bool,
) -> pipelines.CompactSummary:
    if keyed and dry_run:
        raise Invalid("--keyed has no dry run: only the deletion itself finds the records")
    with Steps() as steps:
        if not keyed:
            return pipelines.compact(
                lake.url_of(target),
                topics,
                engine=where.chooser(steps.show),
                settings=settings,
                dry_run=dry_run,
                progress=steps.show,
            )
        check_store_exists(target.store)
        return pipelines.compact_keyed(
            target.store,
            topics,
            engine=where.chooser(steps.show),
            settings=settings,
            lake=target.lake_url,
            views_url=target.views_url,
            progress=steps.show,
        )


def _compacted(summary: pipelines.CompactSummary) -> str:
    verb = "would be merged" if summary.dry_run else "merged"
    text = f"{summary.groups} groups of files {verb}"
    return text + (f", {len(summary.skipped)} skipped" if summary.skipped else "")


def _skipped(group: pipelines.SkippedGroup) -> dict[str, str]:
    return {
        "topic": group.topic,
        "seqs": f"{group.first_seq} to {group.last_seq}",
        "files": str(group.files),
        "reason": formatting.plain(group.reason),
    }


def _finding(finding: pipelines.ScrubFinding) -> dict[str, str | None]:
    return {
        "kind": finding.kind,
        "path": formatting.plain(finding.path),
        "topic": finding.topic,
        "seqs": None if finding.first_seq is None else f"{finding.first_seq} to {finding.last_seq}",
        "reason": formatting.plain(finding.reason),
    }


def _damaged(findings: Sequence[pipelines.ScrubFinding]) -> Corrupt:
    first = findings[0]
    more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
    error = Corrupt(first.reason + more, path=first.path, offset=first.offset)
    error.add_note("open stores repair what they can; `strandline repair --dry-run` lists the rest")
    return error
