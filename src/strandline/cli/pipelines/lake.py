"""``strandline lake``: lists the lake, moves records there and collects its garbage.

``files`` and ``topics`` read the lake only: they need neither the store nor its lock, and work
wherever its URL can be read.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import msgspec
from cyclopts import App, Parameter

from strandline.cli.open_store import check_store_exists, open_to_write
from strandline.cli.options import TARGET, Flag, Target
from strandline.cli.output import formatting
from strandline.cli.output.formatting import OutputRow, PreparedRow
from strandline.cli.output.output import output
from strandline.cli.output.progress import Bar
from strandline.config.settings import LakeSettings
from strandline.errors import Invalid, NotFound, UnknownTopic
from strandline.lake import external_reader
from strandline.lake.cold_index import ColdSummary
from strandline.lake.external_reader import FileFacts, TopicFiles
from strandline.lake.gc import GcResult
from strandline.log.files.layout import Layout
from strandline.store import Store

_NO_LAKE = ColdSummary(manifest=0, files=0, rows=0, size=0, first_seq=0, last_seq=0)
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

    Any Parquet reader can read them. It has to skip deleted rows and rows below the floor itself.

    Parameters
    ----------
    topic
        Name of the topic.
    version
        An older version that is not deleted yet.
    """
    try:
        listing = external_reader.files(url_of(target), topic, version=version)
    except UnknownTopic as error:
        error.add_note("`strandline lake topics` lists the topics with records in the lake")
        raise
    except NotFound as error:
        error.add_note("without --version the newest version is listed")
        raise
    out = output(target.output)
    if target.output == "json":
        out.one(
            PreparedRow(
                _json(listing) | {"files": [_file(each).json for each in listing.files]}, {}
            )
        )
        return
    if target.output == "table":
        out.one(PreparedRow({}, _facts(listing)))
        sys.stdout.write("\n")
    out.rows([_file(each, listing.version) for each in listing.files])
    out.end()


@app.command(name="topics")
def list_topics(*, target: Target = TARGET) -> None:
    """List the topics that have records in the lake."""
    out = output(target.output)
    out.rows([_topic_row(each) for each in external_reader.topics(url_of(target))])
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
    changed = {name: cold for name, cold in after.items() if cold != before.get(name, _NO_LAKE)}
    out = output(target.output)
    out.rows([_moved_row(name, before.get(name, _NO_LAKE), cold) for name, cold in changed.items()])
    out.end()
    if not changed and target.output == "table":
        print("nothing to move", file=sys.stderr)


@app.command
def sweep(
    *,
    orphans: Flag = False,
    target: Target = TARGET,
) -> None:
    """Delete old versions of the lake, and files that no kept version lists.

    A store does this by itself, after a day.

    Parameters
    ----------
    orphans
        Also find objects that no version ever listed, which a crash may leave. They are deleted by
        a later sweep, after a day.
    """
    with open_to_write(target.store, create=False, lake_url=target.lake_url) as store:
        results = store.sweep(orphans=orphans)
    out = output(target.output)
    out.rows([_sweep_row(name, done) for name, done in results.items()])
    out.end()


def url_of(target: Target) -> str:
    """The URL or path of the lake."""
    if target.lake_url:
        return target.lake_url
    check_store_exists(target.store)
    folder = Layout(os.path.abspath(target.store)).lake
    if not os.path.isdir(folder):
        error = Invalid(f"{target.store} has no folder `lake`")
        error.add_note("--lake-url names a lake elsewhere; `strandline lake relocate` fills one")
        raise error
    return folder


def _cold(store: Store) -> dict[str, ColdSummary]:
    numbers = {name: store.existing_topic(name).statistics().cold for name in store.topics()}
    return {name: cold for name, cold in numbers.items() if cold is not None}


def _json(topic: TopicFiles) -> formatting.Json:
    names = ("topic", "topic_id", "version", "created_us", "floor")
    json: formatting.Json = {name: getattr(topic, name) for name in names}
    json |= {"schema": topic.schema, "schema_version": topic.schema_version}
    return json | {"deleted": topic.deleted.to_pylist(), "rows": topic.rows, "size": topic.size}


def _facts(files: TopicFiles) -> dict[str, str]:
    return {
        "topic": files.topic,
        "id": str(files.topic_id),
        "version": str(files.version),
        "created": formatting.time_text(files.created_us),
        "floor": str(files.floor),
        "deleted": f"{len(files.deleted)} rows that the files may still hold",
        "files": f"{len(files.files)} with {files.rows} rows, {formatting.size(files.size)}",
        "schema": formatting.schema(files.schema, files.schema_version),
    }


def _file(file: FileFacts, version: int | None = None) -> OutputRow:
    json = msgspec.to_builtins(file)
    if version is not None:
        json = {"version": version} | json
    columns = {
        "first": str(file.first_seq),
        "last": str(file.last_seq),
        "rows": str(file.rows),
        "size": formatting.size(file.size),
        "newest": formatting.time_text(file.ts_max) if file.rows else None,
        "schema": f"version {file.schema_version}" if file.schema_version else None,
        "file": formatting.plain(file.url),
    }
    return PreparedRow(json, columns)


def _topic_row(topic: TopicFiles) -> OutputRow:
    first = topic.files[0].first_seq if topic.files else 0
    last = topic.files[-1].last_seq if topic.files else 0
    json = _json(topic) | {"files": len(topic.files), "first_seq": first, "last_seq": last}
    json["deleted"] = len(topic.deleted)
    columns = {
        "topic": topic.topic,
        "id": str(topic.topic_id),
        "version": str(topic.version),
        "seqs": f"{first} to {last}" if topic.files else "-",
        "files": str(len(topic.files)),
        "rows": str(topic.rows),
        "deleted": str(len(topic.deleted)),
        "size": formatting.size(topic.size),
    }
    return PreparedRow(json, columns)


def _moved_row(name: str, before: ColdSummary, after: ColdSummary) -> OutputRow:
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
    return PreparedRow(dict(numbers), columns)


def _sweep_row(name: str, result: GcResult) -> OutputRow:
    numbers = msgspec.to_builtins(result)
    columns = {"topic": name, **{key: str(value) for key, value in numbers.items()}}
    return PreparedRow({"topic": name} | numbers, columns)
