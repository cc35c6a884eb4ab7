"""``strandline reservoir``: what is in one, whether it is whole, and clearing up after damage.

``versions``, ``inspect`` and ``verify`` read only, beside a process that writes. ``clean`` takes
the reservoir over for a moment, as any opening for writing does: a writer that has it open is
fenced.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from typing import Annotated

from cyclopts import App, Parameter

from strandline.cli.input.confirm import Yes, ask
from strandline.cli.options import PRINTED, Printed
from strandline.cli.output import formatting
from strandline.cli.output.formatting import Made, Row, row_of
from strandline.cli.output.output import output, print_report
from strandline.cli.output.progress import Bar
from strandline.config.settings import ReservoirSettings
from strandline.errors import Corrupt, Invalid, NotFound
from strandline.platform.objectstore.cloud import open_objects
from strandline.platform.objectstore.protocol import Objects
from strandline.reservoir import inspect, object_keys, recovery
from strandline.reservoir import verify as reservoir_verify
from strandline.reservoir.inspect import (
    CheckpointSummary,
    FileSummary,
    GarbageSummary,
    ObjectSummary,
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
from strandline.reservoir.verify import CheckReport, Damage

_URL = "URL of the reservoir: a folder, s3://bucket/prefix, az:// or gs://."

# Nothing is dropped for being old: how many versions are kept is its program's business.
_KEEP_ALL = ReservoirSettings(
    keep_versions=1_000_000, snapshot_interval=1_000_000, compact_share=0.0
)

app = App(name="reservoir")

Url = Annotated[str, Parameter(metavar="URL", help=_URL)]
Version = Annotated[str, Parameter(metavar="NAME", help="The stream version to look at.")]


@app.command(name="inspect")
def show(url: Url, /, *, version: Version = DEFAULT, printed: Printed = PRINTED) -> None:
    """Show checkpoints, files, how much of them is alive, and objects that nobody counts on.

    Works beside a process that writes.
    """
    with _opened(url, version) as objects:
        found = inspect.inspect(objects)
        asked = objects.requests()
    lists: dict[str, Sequence[Row]] = {
        "checkpoints": [_checkpoint_row(each) for each in reversed(found.checkpoints)],
        "files": [_file_row(each) for each in found.files],
        "garbage": [_garbage_row(each) for each in found.garbage],
        **_strangers(found),
        "passed over": [Made({}, {"reason": formatting.plain(each)}) for each in found.passed_over],
    }
    json = {"requests": formatting.jsonable(asked), "cost": asked.cost()}
    print_report(printed.output, row_of(found, _facts(found, asked), **json), lists)


@app.command
def versions(url: Url, /, *, printed: Printed = PRINTED) -> None:
    """List the stream versions at a url, the one that was opened last at the end.

    Works beside a process that writes. It lists every object below the url.
    """
    _check_seen(url)
    with contextlib.closing(open_objects(url)) as root:
        found = list_versions(root)
        if not found:
            missing = Invalid(f"there is no reservoir in {url}")
            missing.add_note(_what_is_there(root, url))
            raise missing
    printer = output(printed.output)
    printer.rows([_version_row(each) for each in found])
    printer.end()


@app.command
def verify(url: Url, /, *, version: Version = DEFAULT, printed: Printed = PRINTED) -> None:
    """Read every object and check every checksum; change nothing. Exit code 3 when one is damaged.

    Works beside a process that writes.
    """
    with Bar() as bar, _opened(url, version) as objects:
        report = reservoir_verify.verify(objects, bar.show)
        asked = objects.requests()
    facts = {
        "reservoir": formatting.plain(report.place),
        "version": str(report.version),
        "checked": f"{report.checkpoints} checkpoints, {report.files} files, {report.pages} pages",
        "read": formatting.size(asked.bytes_out),
        "asked": _asked(asked),
        "result": "good" if report.ok else f"{len(report.damage)} places are damaged",
    }
    lists: dict[str, Sequence[Row]] = {
        "damage": [_damage_row(each) for each in report.damage],
        **_strangers(report),
    }
    json = {"ok": report.ok, "requests": formatting.jsonable(asked), "cost": asked.cost()}
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
    printed: Printed = PRINTED,
) -> None:
    """Delete what was set aside because a damaged version may have needed it. It asks first.

    Whoever has the reservoir open for writing is fenced by this, and stops.
    """
    done = {"objects": 0, "bytes": 0}
    with _opened(url, version) as objects:
        doomed = inspect.inspect(objects).set_aside
        if doomed:
            size = sum(each.size for each in doomed)
            if not yes:
                ask(f"Delete {len(doomed)} objects ({formatting.size(size)}) that were set aside?")
            done = _clean(objects)
    texts = {"objects deleted": str(done["objects"]), "freed": formatting.size(done["bytes"])}
    output(printed.output).one(Made(dict(done), texts))
    if not doomed and printed.output == "table":
        print("nothing was set aside", file=sys.stderr)


def _clean(objects: Objects) -> dict[str, int]:
    """Delete what was set aside; how much went."""
    before = recovery.listing(objects).sizes
    with Reservoir(objects, settings=_KEEP_ALL) as reservoir:
        reservoir.clean()
        reservoir.checkpoint(reservoir.meta)  # a later opening must know that nothing is set aside
    gone = before.keys() - recovery.listing(objects).sizes.keys()
    return {"objects": len(gone), "bytes": sum(before[key] for key in gone)}


@contextlib.contextmanager
def _opened(url: str, version: str) -> Iterator[CountedObjects]:
    """The objects of one stream version, counted. What is no reservoir is told with what to do."""
    _check_seen(url)
    with (
        contextlib.closing(open_objects(url)) as root,
        contextlib.closing(open_objects(f"{url.rstrip('/')}/{version}")) as objects,
    ):
        try:
            yield CountedObjects(objects)
        except NotFound as error:
            missing = Invalid(f"there is no reservoir in {url} with stream version {version!r}")
            missing.add_note(_what_is_there(root, url))
            raise missing from error


def _check_seen(url: str) -> None:
    if url.startswith("memory://"):
        unseen = Invalid("a reservoir in memory:// is seen by its own process alone")
        unseen.add_note("name a folder, s3://bucket/prefix, az:// or gs://")
        raise unseen


def _what_is_there(root: Objects, url: str) -> str:
    """What whoever found no reservoir should try."""
    if next(root.list(object_keys.CHECKPOINTS), None) is not None:
        parent, _, name = url.rstrip("/").rpartition("/")
        return f"this is the folder of one stream version: name {parent or '.'} --version {name}"
    names = version_names(root)
    if next(root.list(f"{DEFAULT}/{object_keys.CHECKPOINTS}"), None) is not None:
        names.append(DEFAULT)
    if names:
        return f"name another with --version: there are {', '.join(names)}"
    return "check the url; a program that opens a reservoir there for writing makes one"


def _facts(found: ReservoirSummary, asked: Requests) -> dict[str, str]:
    stored = sum(each.size for each in found.files)
    alive = f", {found.live_bytes / stored:.0%} alive" if stored else ""
    return {
        "reservoir": formatting.plain(found.place),
        "id": found.id,
        "version": str(found.version),
        "pages": str(found.pages),
        "checkpoints": _amount([each.size or 0 for each in found.checkpoints]),
        "files": f"{len(found.files)}, {formatting.size(stored)}{alive}",
        "garbage": _amount([each.size for each in found.garbage]),
        "set aside": _amount([each.size for each in found.set_aside]),
        "left over": _amount([each.size for each in found.left_over]),
        "meta": formatting.size(found.meta_bytes),
        "all objects": formatting.size(found.size),
        "asked": _asked(asked),
    }


def _amount(sizes: Sequence[int]) -> str:
    return f"{len(sizes)}, {formatting.size(sum(sizes))}" if sizes else "none"


def _asked(asked: Requests) -> str:
    return (
        f"{asked.gets} gets, {asked.lists} lists, {formatting.size(asked.bytes_out)}: "
        f"about {asked.cost():.6f} dollars in a bucket"
    )


def _checkpoint_row(found: CheckpointSummary) -> Row:
    return Made(
        {},
        {
            "version": str(found.version),
            "kind": found.kind + (", bundle" if found.bundle else ""),
            "made": None if found.made_us is None else formatting.moment(found.made_us),
            "pages": formatting.text(found.pages),
            "deleted": formatting.text(found.deleted),
            "size": "gone" if found.size is None else formatting.size(found.size),
            "problem": formatting.plain(found.problem) or None,
        },
    )


def _version_row(found: VersionSummary) -> Row:
    columns = {
        "name": formatting.plain(found.name),
        "opened": None if found.opened_us is None else formatting.moment(found.opened_us),
        "version": str(found.version),
        "objects": str(found.objects),
        "size": formatting.size(found.size),
    }
    return row_of(found, columns)


def _file_row(found: FileSummary) -> Row:
    return Made(
        {},
        {
            "file": found.file_id,
            "pages": f"{found.live_pages} of {found.pages}",
            "alive": f"{found.live_ratio:.0%}",
            "size": formatting.size(found.size),
            "since": str(found.since),
            "object": "gone" if found.missing else found.key,
        },
    )


def _garbage_row(found: GarbageSummary) -> Row:
    columns = {
        "file": found.file_id,
        "since": str(found.since),
        "size": formatting.size(found.size),
        "object": found.key,
    }
    return Made({}, columns)


def _strangers(found: ReservoirSummary | CheckReport) -> dict[str, Sequence[Row]]:
    """Objects that the newest version knows nothing of."""
    return {
        "set aside": [_object_row(each) for each in found.set_aside],
        "left over": [_object_row(each) for each in found.left_over],
        "of unknown names": [_object_row(each) for each in found.unknown],
    }


def _object_row(found: ObjectSummary) -> Row:
    return Made({}, {"object": formatting.plain(found.key), "size": formatting.size(found.size)})


def _damage_row(found: Damage) -> Row:
    return Made(
        {},
        {
            "object": formatting.plain(found.object),
            "byte": str(found.offset),
            "page": None if found.page is None else str(found.page),
            "reason": formatting.plain(found.reason),
        },
    )


def _damaged(report: CheckReport) -> Corrupt:
    first = report.damage[0]
    more = len(report.damage) - 1
    reason = first.reason + (f" (and {more} more places)" if more else "")
    error = Corrupt(reason, path=f"{report.place}/{first.object}", offset=first.offset)
    error.add_note("put the object back from a copy, or open an older version with at=")
    return error
