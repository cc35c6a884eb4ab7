"""``strandline backup`` and ``strandline restore``: backups of a store, and stores from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from cyclopts import App, Parameter

from strandline.backup.backups import BackupInfo, Backups
from strandline.backup.uploader import GRACE_S
from strandline.backup.verify import BackupProblem, BackupReport
from strandline.cli.input.confirm import Yes, confirm
from strandline.cli.open_store import check_store_exists
from strandline.cli.options import DEFAULT_OUTPUT, TARGET, Flag, OutputOptions, Target, milliseconds
from strandline.cli.output import formatting
from strandline.cli.output.formatting import OutputRow, PreparedRow, row_of
from strandline.cli.output.output import output, print_report
from strandline.cli.output.progress import Bar
from strandline.errors import Corrupt, Invalid

_URL = "URL of the backups: a folder, s3://bucket/prefix, az:// or gs://."

backup = App(name="backup")

Url = Annotated[str, Parameter(env_var="STRANDLINE_BACKUPS", metavar="URL", help=_URL)]
From = Annotated[
    str, Parameter(name="--from", env_var="STRANDLINE_BACKUPS", metavar="URL", help=_URL)
]
Lake = Annotated[
    str | None, Parameter(metavar="URL", help="Lake of the store. Default: its folder `lake`.")
]


@backup.default
def create_backup(*, to: Url, lake: Lake = None, target: Target = TARGET) -> None:
    """Back up a store; list, verify and prune backups.

    Files that are in the newest backup are not copied again. The store may be closed, or
    open in any process, which continues to write.
    """
    check_store_exists(target.store)
    with Bar() as bar, Backups(to) as backups:
        created = backups.create(target.store, lake=lake, progress=bar.show)
    output(target.output).one(_backup_row(created))


@backup.command(name="ls", alias="list")
def list_backups(*, source: From, printed: OutputOptions = DEFAULT_OUTPUT) -> None:
    """List the backups, and the times that can be restored.

    Every time from FROM to UNTIL of a backup can be restored. If FROM equals UNTIL of the backup
    before, the log between the two backups is complete.
    """
    with Backups(source) as backups:
        rows = [_backup_row(each) for each in backups.list()]
    out = output(printed.output)
    out.rows(rows)
    out.end()


@backup.command
def verify(
    *,
    source: From,
    backup: int | None = None,
    quick: Flag = False,
    printed: OutputOptions = DEFAULT_OUTPUT,
) -> None:
    """Read every object of every backup; change nothing. Exit code 3 if one is damaged.

    Parameters
    ----------
    backup
        Only the backup of this number.
    quick
        Compare sizes only.
    """
    with Bar() as bar, Backups(source) as backups:
        report = backups.verify(backup=backup, quick=quick, progress=bar.show)
    facts = {
        "place": formatting.plain(report.place),
        "checked": f"{report.backups} backups, {report.objects} objects",
        "read": formatting.size(report.bytes_read),
        "result": "good" if report.ok else f"{len(report.problems)} problems",
    }
    lists: dict[str, Sequence[OutputRow]] = {
        "problems": [_problem_row(each) for each in report.problems]
    }
    print_report(printed.output, row_of(report, facts, ok=report.ok), lists)
    if not report.ok:
        raise _damaged(report)


@backup.command
def prune(
    *,
    keep: int,
    source: From,
    grace: str = f"{round(GRACE_S)}s",
    yes: Yes = False,
    printed: OutputOptions = DEFAULT_OUTPUT,
) -> None:
    """Remove old backups, and the objects that only they refer to.

    It asks first; without a terminal it needs `--yes`.

    Parameters
    ----------
    keep
        Number of the newest backups that stay.
    grace
        Keep younger objects: they may belong to a backup in progress.
    """
    with Backups(source) as backups:
        grace_s = milliseconds(grace) / 1000
        if not yes:
            confirm(f"Remove all backups in {source} but the newest {keep}?")
        pruned = backups.prune(keep=keep, grace_s=grace_s)
    facts = {
        "backups removed": formatting.text(pruned.backups),
        "objects removed": f"{pruned.objects}, {formatting.size(pruned.bytes)}",
    }
    output(printed.output).one(row_of(pruned, facts))


def restore(
    *,
    to: Annotated[str, Parameter(metavar="PATH", help="An empty or new directory.")],
    source: From,
    at: str | None = None,
    backup: int | None = None,
    lake: Annotated[
        str | None,
        Parameter(metavar="URL", help="Location of the lake. Default: in the directory."),
    ] = None,
    printed: OutputOptions = DEFAULT_OUTPUT,
) -> None:
    """Create a store from a backup.

    From the newest backup, from another, or as of a time.

    Parameters
    ----------
    at
        A time (2026-03-28T14:05:00Z, or microseconds), an lsn by shard (0:81920,1:40960) or a
        record (orders=1200).
    backup
        The backup of this number; with `--at`, one that includes that time.
    """
    with Bar() as bar, Backups(source) as backups:
        try:
            restored = backups.restore(to, backup=backup, at=at, lake=lake, progress=bar.show)
        except Invalid as error:
            error.add_note(f"`strandline backup list --from {source}` lists what can be restored")
            raise
    output(printed.output).one(row_of(restored))


def _backup_row(info: BackupInfo) -> OutputRow:
    return row_of(
        info,
        {
            "backup": str(info.number),
            "created": formatting.time_text(info.made_us),
            "from": formatting.time_text(info.from_us),
            "until": formatting.time_text(info.until_us),
            "copied": formatting.size(info.copied_bytes),
            "size": formatting.size(info.size),
            "topics": str(info.topics),
        },
    )


def _problem_row(problem: BackupProblem) -> OutputRow:
    return PreparedRow(
        {},
        {
            "backup": str(problem.backup),
            "object": formatting.plain(problem.key),
            "reason": formatting.plain(problem.reason),
        },
    )


def _damaged(report: BackupReport) -> Corrupt:
    first = report.problems[0]
    more = len(report.problems) - 1
    reason = first.reason + (f" (and {more} more problems)" if more else "")
    error = Corrupt(reason, path=f"{report.place}/{first.key}")
    error.add_note("create a new backup; an older one may be intact: verify it with --backup")
    return error
