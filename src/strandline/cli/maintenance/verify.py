"""``strandline verify`` and ``strandline repair``: find damage in a store, and repair it."""

from __future__ import annotations

import os
from collections.abc import Sequence

from strandline.cli.maintenance.saved_view_damage import notes_on_views
from strandline.cli.maintenance.verification import verify_all
from strandline.cli.open_store import check_store_exists
from strandline.cli.options import TARGET, VIEW_TARGET, Flag, Target, ViewTarget
from strandline.cli.output import formatting
from strandline.cli.output.formatting import OutputRow, PreparedRow, row_of
from strandline.cli.output.output import print_report
from strandline.cli.output.progress import Bar
from strandline.config.settings import LakeSettings, Settings
from strandline.errors import Corrupt
from strandline.log.repair.repair import RepairReport, repair_store
from strandline.log.repair.verify import VerifyProblem, VerifyReport
from strandline.platform.disk import OsDisk


def verify(
    *, no_lake: Flag = False, no_views: Flag = False, target: ViewTarget = VIEW_TARGET
) -> None:
    """Check all files of a store, its lake and its views.

    Every file is read and none is changed.
    Works while another process writes. Exit code 3 if a file is damaged. Damage of saved views is
    only a note: they can be rebuilt from the log.

    Parameters
    ----------
    no_lake
        Skip the lake.
    no_views
        Skip the saved views.
    """
    path = os.path.abspath(target.store)
    check_store_exists(path)
    settings = Settings(lake=LakeSettings(url=target.lake_url))
    with Bar() as bar:
        # Saved views are notes: they may be elsewhere, and damage in them loses nothing.
        report = verify_all(
            OsDisk(), path, settings, progress=bar.show, lake=not no_lake, views=False
        )
        if not no_views:
            report.notes += notes_on_views(path, target.views_url, bar.show)
    facts = {
        "store": formatting.plain(path),
        "in use": formatting.text(report.in_use),
        "read": f"{report.files} files, {formatting.size(report.bytes_read)}",
        "checked": f"{report.topics} topics, {report.frames} frames, {report.blocks} blocks, "
        f"{report.records} records",
        "result": "good" if report.ok else f"{len(report.problems)} problems",
    }
    lists: dict[str, Sequence[OutputRow]] = {
        "problems": _problem_rows(report.problems),
        "notes": [row_of(note) for note in report.notes],
    }
    print_report(target.output, row_of(report, facts, ok=report.ok), lists)
    if not report.ok:
        raise _damaged(report)


def repair(
    *,
    dry_run: Flag = False,
    no_lake: Flag = False,
    target: Target = TARGET,
) -> None:
    """Take damaged files out of use; keep the rest.

    The store can be opened again afterwards. Nothing is deleted: files that are
    taken out of use are moved to the folder `damaged`.

    Parameters
    ----------
    dry_run
        Only report what a repair would do.
    no_lake
        Do not search the lake for records that are missing here.
    """
    path = os.path.abspath(target.store)
    check_store_exists(path)
    with Bar() as bar:
        report = repair_store(
            OsDisk(),
            path,
            Settings(lake=LakeSettings(url=target.lake_url)),
            dry_run=dry_run,
            progress=bar.show,
            lake=not no_lake,
        )
    facts = {"store": formatting.plain(path), "result": _outcome(report)}
    lists: dict[str, Sequence[OutputRow]] = {
        "problems": _problem_rows(report.problems),
        "records given up": [row_of(each) for each in report.lost],
        "files moved": [row_of(each) for each in report.moved],
        "files written": [
            PreparedRow({}, {"path": formatting.plain(each)}) for each in report.written
        ],
        "notes": [PreparedRow({}, {"note": formatting.plain(each)}) for each in report.notes],
    }
    print_report(target.output, row_of(report, facts, healthy=report.healthy), lists)


def _problem_rows(problems: Sequence[VerifyProblem]) -> list[OutputRow]:
    return [
        PreparedRow(
            {},
            {
                "kind": problem.kind,
                "path": formatting.plain(problem.path),
                "byte": str(problem.offset),
                "topic": problem.topic,
                "seqs": None
                if problem.first_seq is None
                else f"{problem.first_seq} to {problem.last_seq}",
                "reason": formatting.plain(problem.reason),
            },
        )
        for problem in problems
    ]


def _outcome(report: RepairReport) -> str:
    if report.healthy:
        return "nothing to repair"
    records = sum(lost.last_seq - lost.first_seq + 1 for lost in report.lost)
    bound = "" if all(lost.exact for lost in report.lost) else "at most "
    if report.dry_run:
        return f"a repair would give up {bound}{records} records"
    return f"repaired; {bound}{records} records were given up"


def _damaged(report: VerifyReport) -> Corrupt:
    first = report.problems[0]
    more = len(report.problems) - 1
    reason = first.reason + (f" (and {more} more problems)" if more else "")
    error = Corrupt(reason, path=first.path, offset=first.offset)
    error.add_note("`strandline repair --dry-run` lists what a repair would give up")
    return error
