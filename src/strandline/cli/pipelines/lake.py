"""``strandline lake``: what is in the lake, and moving records there.

``files`` and ``topics`` read the lake alone: they need neither the store nor its lock, and work
from anywhere that its url can be read.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import msgspec
from cyclopts import App, Parameter

from strandline.cli.open_store import must_exist, open_to_write
from strandline.cli.options import TARGET, Flag, Target
from strandline.cli.output import formatting
from strandline.cli.output.formatting import Made, Row
from strandline.cli.output.output import output
from strandline.cli.output.progress import Bar
from strandline.config.settings import LakeSettings
from strandline.errors import Invalid, NotFound, UnknownTopic
from strandline.lake import external_reader
from strandline.lake.cold_index import ColdSummary
from strandline.lake.external_reader import FileFacts, TopicFiles
from strandline.lake.gc import Swept
from strandline.log.files.layout import Layout
from strandline.store import Store

_NOTHING = ColdSummary(manifest=0, files=0, rows=0, size=0, first_seq=0, last_seq=0)
app = App(name="lake")


@app.command
def files(
    topic: str,
    /,
    *,
    version: int | None = None,
    target: Target = TARGET,
) -> None:
    """List the live Parquet files of a topic, with the version of the lake that lists them.

    Any Parquet reader can read them. It leaves out rows below the floor and deleted ones itself.

    Parameters
    ----------
    topic
        Name of the topic.
    version
        An older version that is still kept.
    """
    try:
        found = external_reader.files(url_of(target), topic, version=version)
    except UnknownTopic as error:
        error.add_note("`strandline lake topics` lists those that have records in the lake")
        raise
    except NotFound as error:
        error.add_note("without --version the newest is listed")
        raise
    out = output(target.output)
    if target.output == "json":
        out.one(Made(_json(found) | {"files": [_file(each).json for each in found.files]}, {}))
        return
    if target.output == "table":
        out.one(Made({}, _facts(found)))
        sys.stdout.write("\n")
    out.rows([_file(each, found.version) for each in found.files])
    out.end()


@app.command(name="topics")
def list_topics(*, target: Target = TARGET) -> None:
    """List the topics that have records in the lake."""
    out = output(target.output)
    out.rows([_listed(each) for each in external_reader.topics(url_of(target))])
    out.end()


@app.command
def relocate(
    *,
    hot_segments: Annotated[int, Parameter(metavar="COUNT")] = LakeSettings().hot_segments,
    target: Target = TARGET,
) -> None:
    """Move sealed history into the lake now. A store does this by itself.

    Parameters
    ----------
    hot_segments
        Sealed segments of a topic that stay on this disk.
    """
    if hot_segments < 0:
        raise Invalid("--hot-segments is 0 or more")
    with open_to_write(
        target.store, create=False, lake_url=target.lake_url, hot_segments=hot_segments
    ) as store:
        before = _cold(store)
        with Bar() as bar:
            store.relocate(bar.show)
        after = _cold(store)
    changed = {name: cold for name, cold in after.items() if cold != before.get(name, _NOTHING)}
    out = output(target.output)
    out.rows([_moved(name, before.get(name, _NOTHING), cold) for name, cold in changed.items()])
    out.end()
    if not changed and target.output == "table":
        print("nothing is due", file=sys.stderr)


@app.command
def sweep(
    *,
    orphans: Flag = False,
    target: Target = TARGET,
) -> None:
    """Delete old versions of the lake, and files that no version lists any more.

    A store does this by itself, after a day.

    Parameters
    ----------
    orphans
        Look also for objects that no version ever listed, which a crash may leave. They go a
        sweep later, after a day.
    """
    with open_to_write(target.store, create=False, lake_url=target.lake_url) as store:
        swept = store.sweep(orphans=orphans)
    out = output(target.output)
    out.rows([_swept(name, done) for name, done in swept.items()])
    out.end()


def url_of(target: Target) -> str:
    """Where the lake is."""
    if target.lake_url:
        return target.lake_url
    must_exist(target.store)
    folder = Layout(os.path.abspath(target.store)).lake
    if not os.path.isdir(folder):
        error = Invalid(f"{target.store} has no lake in its folder")
        error.add_note("--lake-url names a lake elsewhere; `strandline lake relocate` fills one")
        raise error
    return folder


def _cold(store: Store) -> dict[str, ColdSummary]:
    numbers = {name: store.existing_topic(name).statistics().cold for name in store.topics()}
    return {name: cold for name, cold in numbers.items() if cold is not None}


def _json(found: TopicFiles) -> formatting.Json:
    names = ("topic", "topic_id", "version", "created_us", "floor")
    json: formatting.Json = {name: getattr(found, name) for name in names}
    json |= {"schema": found.schema, "schema_version": found.schema_version}
    return json | {"deleted": found.deleted.to_pylist(), "rows": found.rows, "size": found.size}


def _facts(found: TopicFiles) -> dict[str, str]:
    return {
        "topic": found.topic,
        "id": str(found.topic_id),
        "version": str(found.version),
        "made": formatting.moment(found.created_us),
        "floor": str(found.floor),
        "deleted": f"{len(found.deleted)} rows that the files may still hold",
        "files": f"{len(found.files)} with {found.rows} rows, {formatting.size(found.size)}",
        "schema": formatting.schema(found.schema, found.schema_version),
    }


def _file(found: FileFacts, version: int | None = None) -> Row:
    json = msgspec.to_builtins(found)
    if version is not None:
        json = {"version": version} | json
    columns = {
        "first": str(found.first_seq),
        "last": str(found.last_seq),
        "rows": str(found.rows),
        "size": formatting.size(found.size),
        "newest": formatting.moment(found.ts_max) if found.rows else None,
        "schema": f"version {found.schema_version}" if found.schema_version else None,
        "file": formatting.plain(found.url),
    }
    return Made(json, columns)


def _listed(found: TopicFiles) -> Row:
    first = found.files[0].first_seq if found.files else 0
    last = found.files[-1].last_seq if found.files else 0
    json = _json(found) | {"files": len(found.files), "first_seq": first, "last_seq": last}
    json["deleted"] = len(found.deleted)
    columns = {
        "topic": found.topic,
        "id": str(found.topic_id),
        "version": str(found.version),
        "seqs": f"{first} to {last}" if found.files else "-",
        "files": str(len(found.files)),
        "rows": str(found.rows),
        "deleted": str(len(found.deleted)),
        "size": formatting.size(found.size),
    }
    return Made(json, columns)


def _moved(name: str, before: ColdSummary, after: ColdSummary) -> Row:
    numbers = {
        "topic": name,
        "version": after.manifest,
        "last_seq": after.last_seq,
        "files": after.files,
        "new_files": after.files - before.files,
        "new_rows": after.rows - before.rows,
        "new_bytes": after.size - before.size,
    }
    columns = {
        "topic": name,
        "version": str(after.manifest),
        "up to": str(after.last_seq),
        "files": f"{after.files} ({after.files - before.files:+})",
        "rows": f"{after.rows} ({after.rows - before.rows:+})",
        "size": formatting.size(after.size),
    }
    return Made(dict(numbers), columns)


def _swept(name: str, done: Swept) -> Row:
    numbers = msgspec.to_builtins(done)
    columns = {"topic": name, **{key: str(value) for key, value in numbers.items()}}
    return Made({"topic": name} | numbers, columns)
