"""``strandline reservoir``: inspects and verifies a reservoir, and cleans up after damage.

``versions``, ``inspect`` and ``verify`` only read, while another process may write. ``clean`` opens
the reservoir for writing, which fences a writer that has it open.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from typing import Annotated

from cyclopts import App, Parameter

from strandline.cli.input.confirm import Yes, confirm
from strandline.cli.options import DEFAULT_OUTPUT, OutputOptions
from strandline.cli.output import formatting
from strandline.cli.output.formatting import OutputRow, PreparedRow, row_of
from strandline.cli.output.output import output, print_report
from strandline.cli.output.progress import Bar
from strandline.config.settings import ReservoirSettings
from strandline.errors import Corrupt, Invalid, NotFound
from strandline.platform.objectstore.cloud import open_objects
from strandline.platform.objectstore.protocol import Objects
from strandline.reservoir import inspect, object_keys, recovery
from strandline.reservoir import verify as reservoir_verify
from strandline.reservoir.inspect import (
    FileSummary,
    GarbageSummary,
    ObjectSummary,
    ReservoirCheckpointSummary,
    ReservoirSummary,
)
from strandline.reservoir.request_metering import CountedObjects, Requests
from strandline.reservoir.reservoir import Reservoir
from strandline.reservoir.stream_versions import (
    DEFAULT,
    VersionSummary,
    list_versions,
    version_names,
)
from strandline.reservoir.verify import CheckReport, PageDamage

_URL = "URL of the reservoir: a folder, s3://bucket/prefix, az:// or gs://."

# No version is dropped for its age: the program of the reservoir decides how many to keep.
_KEEP_ALL = ReservoirSettings(
    retained_versions=1_000_000, snapshot_interval=1_000_000, compact_share=0.0
)

app = App(name="reservoir")

Url = Annotated[str, Parameter(metavar="URL", help=_URL)]
Version = Annotated[str, Parameter(metavar="NAME", help="The stream version to read.")]


@app.command(name="inspect")
def show(
    url: Url, /, *, version: Version = DEFAULT, printed: OutputOptions = DEFAULT_OUTPUT
) -> None:
    """Show checkpoints, files, their live share, and objects without a reference.

    Works while another process writes.
    """
    with _opened(url, version) as objects:
        summary = inspect.inspect(objects)
        requests = objects.requests()
    lists: dict[str, Sequence[OutputRow]] = {
        "checkpoints": [_checkpoint_row(each) for each in reversed(summary.checkpoints)],
        "files": [_file_row(each) for each in summary.files],
        "garbage": [_garbage_row(each) for each in summary.garbage],
        **_unreferenced(summary),
        "passed over": [
            PreparedRow({}, {"reason": formatting.plain(each)}) for each in summary.passed_over
        ],
    }
    json = {"requests": formatting.jsonable(requests), "cost": requests.cost()}
    print_report(printed.output, row_of(summary, _facts(summary, requests), **json), lists)


@app.command
def versions(url: Url, /, *, printed: OutputOptions = DEFAULT_OUTPUT) -> None:
    """List the stream versions at a URL, the last opened one at the end.

    Works while another process writes. It lists every object below the URL.
    """
    _reject_memory(url)
    with contextlib.closing(open_objects(url)) as root:
        summaries = list_versions(root)
        if not summaries:
            missing = Invalid(f"there is no reservoir in {url}")
            missing.add_note(_hint(root, url))
            raise missing
    printer = output(printed.output)
    printer.rows([_version_row(each) for each in summaries])
    printer.end()


@app.command
def verify(
    url: Url, /, *, version: Version = DEFAULT, printed: OutputOptions = DEFAULT_OUTPUT
) -> None:
    """Read every object and check every checksum; change nothing. Exit code 3 if one is damaged.

    Works while another process writes.
    """
    with Bar() as bar, _opened(url, version) as objects:
        report = reservoir_verify.verify(objects, bar.show)
        requests = objects.requests()
    facts = {
        "reservoir": formatting.plain(report.place),
        "version": str(report.version),
        "checked": f"{report.checkpoints} checkpoints, {report.files} files, {report.pages} pages",
        "read": formatting.size(requests.bytes_out),
        "requests": _requests_text(requests),
        "result": "good" if report.ok else f"{len(report.damage)} places are damaged",
    }
    lists: dict[str, Sequence[OutputRow]] = {
        "damage": [_damage_row(each) for each in report.damage],
        **_unreferenced(report),
    }
    json = {"ok": report.ok, "requests": formatting.jsonable(requests), "cost": requests.cost()}
    print_report(printed.output, row_of(report, facts, **json), lists)
    if not report.ok:
        raise _damaged(report)


@app.command
def clean(
    url: Url,
    /,
    *,
    version: Version = DEFAULT,
    yes: Yes = False,
    printed: OutputOptions = DEFAULT_OUTPUT,
) -> None:
    """Delete objects that were set aside because a damaged version may need them. It asks first.

    A process that has the reservoir open for writing is fenced and stops.
    """
    deleted = {"objects": 0, "bytes": 0}
    with _opened(url, version) as objects:
        set_aside = inspect.inspect(objects).set_aside
        if set_aside:
            size = sum(each.size for each in set_aside)
            if not yes:
                confirm(f"Delete {len(set_aside)} objects ({formatting.size(size)}) set aside?")
            deleted = _clean(objects)
    texts = {"objects deleted": str(deleted["objects"]), "freed": formatting.size(deleted["bytes"])}
    output(printed.output).one(PreparedRow(dict(deleted), texts))
    if not set_aside and printed.output == "table":
        print("nothing was set aside", file=sys.stderr)


def _clean(objects: Objects) -> dict[str, int]:
    """Delete the objects that were set aside; their number and bytes."""
    before = recovery.listing(objects).sizes
    with Reservoir(objects, settings=_KEEP_ALL) as reservoir:
        reservoir.clean()
        reservoir.checkpoint(reservoir.meta)  # so that a later opening finds nothing set aside
    deleted = before.keys() - recovery.listing(objects).sizes.keys()
    return {"objects": len(deleted), "bytes": sum(before[key] for key in deleted)}


@contextlib.contextmanager
def _opened(url: str, version: str) -> Iterator[CountedObjects]:
    """The objects of one stream version, with counted requests. Without a reservoir, a hint."""
    _reject_memory(url)
    with (
        contextlib.closing(open_objects(url)) as root,
        contextlib.closing(open_objects(f"{url.rstrip('/')}/{version}")) as objects,
    ):
        try:
            yield CountedObjects(objects)
        except NotFound as error:
            missing = Invalid(f"there is no reservoir in {url} with stream version {version!r}")
            missing.add_note(_hint(root, url))
            raise missing from error


def _reject_memory(url: str) -> None:
    if url.startswith("memory://"):
        error = Invalid("a reservoir in memory:// is visible to its own process only")
        error.add_note("name a folder, s3://bucket/prefix, az:// or gs://")
        raise error


def _hint(root: Objects, url: str) -> str:
    """The hint of the error that there is no reservoir."""
    if next(root.list(object_keys.CHECKPOINTS), None) is not None:
        parent, _, name = url.rstrip("/").rpartition("/")
        return f"this is the folder of one stream version: name {parent or '.'} --version {name}"
    names = version_names(root)
    if next(root.list(f"{DEFAULT}/{object_keys.CHECKPOINTS}"), None) is not None:
        names.append(DEFAULT)
    if names:
        return f"name another with --version: there are {', '.join(names)}"
    return "check the URL; opening a reservoir for writing creates one"


def _facts(summary: ReservoirSummary, requests: Requests) -> dict[str, str]:
    stored = sum(each.size for each in summary.files)
    alive = f", {summary.live_bytes / stored:.0%} alive" if stored else ""
    return {
        "reservoir": formatting.plain(summary.place),
        "id": summary.id,
        "version": str(summary.version),
        "pages": str(summary.pages),
        "checkpoints": _amount([each.size or 0 for each in summary.checkpoints]),
        "files": f"{len(summary.files)}, {formatting.size(stored)}{alive}",
        "garbage": _amount([each.size for each in summary.garbage]),
        "set aside": _amount([each.size for each in summary.set_aside]),
        "left over": _amount([each.size for each in summary.left_over]),
        "meta": formatting.size(summary.meta_bytes),
        "all objects": formatting.size(summary.size),
        "requests": _requests_text(requests),
    }


def _amount(sizes: Sequence[int]) -> str:
    return f"{len(sizes)}, {formatting.size(sum(sizes))}" if sizes else "none"


def _requests_text(requests: Requests) -> str:
    return (
        f"{requests.gets} gets, {requests.lists} lists, {formatting.size(requests.bytes_out)}: "
        f"about {requests.cost():.6f} dollars in a bucket"
    )


def _checkpoint_row(checkpoint: ReservoirCheckpointSummary) -> OutputRow:
    return PreparedRow(
        {},
        {
            "version": str(checkpoint.version),
            "kind": checkpoint.kind + (", bundle" if checkpoint.bundle else ""),
            "created": None
            if checkpoint.made_us is None
            else formatting.time_text(checkpoint.made_us),
            "pages": formatting.text(checkpoint.pages),
            "deleted": formatting.text(checkpoint.deleted),
            "size": "gone" if checkpoint.size is None else formatting.size(checkpoint.size),
            "problem": formatting.plain(checkpoint.problem) or None,
        },
    )


def _version_row(version: VersionSummary) -> OutputRow:
    columns = {
        "name": formatting.plain(version.name),
        "opened": None if version.opened_us is None else formatting.time_text(version.opened_us),
        "version": str(version.version),
        "objects": str(version.objects),
        "size": formatting.size(version.size),
    }
    return row_of(version, columns)


def _file_row(file: FileSummary) -> OutputRow:
    return PreparedRow(
        {},
        {
            "file": file.file_id,
            "pages": f"{file.live_pages} of {file.pages}",
            "alive": f"{file.live_ratio:.0%}",
            "size": formatting.size(file.size),
            "since": str(file.since),
            "object": "gone" if file.missing else file.key,
        },
    )


def _garbage_row(garbage: GarbageSummary) -> OutputRow:
    columns = {
        "file": garbage.file_id,
        "since": str(garbage.since),
        "size": formatting.size(garbage.size),
        "object": garbage.key,
    }
    return PreparedRow({}, columns)


def _unreferenced(report: ReservoirSummary | CheckReport) -> dict[str, Sequence[OutputRow]]:
    """Objects that the newest version does not refer to."""
    return {
        "set aside": [_object_row(each) for each in report.set_aside],
        "left over": [_object_row(each) for each in report.left_over],
        "of unknown names": [_object_row(each) for each in report.unknown],
    }


def _object_row(entry: ObjectSummary) -> OutputRow:
    return PreparedRow(
        {}, {"object": formatting.plain(entry.key), "size": formatting.size(entry.size)}
    )


def _damage_row(damage: PageDamage) -> OutputRow:
    return PreparedRow(
        {},
        {
            "object": formatting.plain(damage.object),
            "byte": str(damage.offset),
            "page": None if damage.page is None else str(damage.page),
            "reason": formatting.plain(damage.reason),
        },
    )


def _damaged(report: CheckReport) -> Corrupt:
    first = report.damage[0]
    more = len(report.damage) - 1
    reason = first.reason + (f" (and {more} more places)" if more else "")
    error = Corrupt(reason, path=f"{report.place}/{first.object}", offset=first.offset)
    error.add_note("put the object back from a copy, or open an older version with at=")
    return error
