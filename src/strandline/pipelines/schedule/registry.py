"""Pipelines that can be declared: name, arguments, and what runs them. One entry each.

Arguments are structs, so that a declaration is checked when it is read and not in the night when it
is due. ``run`` gets them with the ``Work`` at hand and tells what was done; a failure that a person
must look at, such as damage that was found, is told in ``failure`` and makes the run a failed one.

All of them work without the store's lock, beside whoever has it open.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from strandline.config.settings import LakeSettings
from strandline.errors import Invalid
from strandline.lake.manifest.fencing import identity_of
from strandline.log.files.layout import Layout
from strandline.log.progress import Progress
from strandline.log.repair.verify import verify_store
from strandline.pipelines.compaction.compact import compact
from strandline.pipelines.compaction.compact_by_key import compact_keyed
from strandline.pipelines.engine import Engine
from strandline.pipelines.materialize import materialize
from strandline.pipelines.rollup import rollup
from strandline.pipelines.scrub import scrub
from strandline.pipelines.transfer.export_files import export
from strandline.pipelines.transfer.import_files import OnBad, Types, import_files
from strandline.pipelines.transfer.row_mapping import Fields
from strandline.pipelines.view_rebuild.rebuild_view import rebuild
from strandline.platform.disk import OsDisk
from strandline.platform.objectstore.cloud import open_objects


class Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a declaration tells a pipeline."""


class Work(NamedTuple):
    """What a pipeline works on, and with."""

    store: str
    lake: str
    """Url of the lake, "" for the store's folder."""
    views: str
    """Url under which views are saved, "" for the store's folder."""
    due: str
    """When it was due, as 20261117T030000Z: stands for ``{due}`` in paths."""
    engine: Engine
    progress: Progress

    @property
    def lake_place(self) -> str:
        return self.lake or Layout(self.store).lake

    def has_no_lake(self) -> bool:
        """Whether nothing was ever moved into the store's own folder: no reason to fail."""
        if self.lake:
            return False
        objects = open_objects(Layout(self.store).lake)
        try:
            return identity_of(objects) is None
        finally:
            objects.close()


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """What a run has done."""

    rows: int = 0
    failure: str = ""


class Pipeline(NamedTuple):
    """One pipeline that can be declared."""

    does: str
    """In a few words, for lists."""
    arguments: type[Arguments]
    run: Callable[[Any, Work], Done]


class CompactArguments(Arguments, frozen=True, kw_only=True):
    """Of ``compact``."""

    topics: tuple[str, ...] = ()
    keyed: bool = False
    """Whether key-value topics first let go of what no reader of the view can see."""
    file_bytes: int = LakeSettings().file_bytes
    dead_share: float = LakeSettings().dead_share


class ScrubArguments(Arguments, frozen=True, kw_only=True):
    """Of ``scrub``."""

    topics: tuple[str, ...] = ()
    local: bool = True
    """Whether the store's own files are read as well."""


class MaterializeArguments(Arguments, frozen=True, kw_only=True):
    """Of ``materialize``."""

    aliases: tuple[str, ...] = ()
    full: bool = False
    """Whether everything is computed again."""


class ImportArguments(Arguments, frozen=True, kw_only=True):
    """Of ``import``."""

    topic: str
    sources: tuple[str, ...]
    format: str = "auto"
    fields: Fields = Fields()
    create: bool = False
    on_bad: OnBad = "fail"
    splittable: bool = False
    types: Types = "auto"


class ExportArguments(Arguments, frozen=True, kw_only=True):
    """Of ``export``."""

    topic: str
    to: str
    """A folder or url; ``{due}`` in it stands for when it was due."""
    format: str = "parquet"
    columns: tuple[str, ...] = ()
    data: str = ""
    partition_by: str = ""
    file_rows: int = 0


class RebuildArguments(Arguments, frozen=True, kw_only=True):
    """Of ``rebuild``: compared, unless it is to be replaced."""

    kind: str
    view: str
    replace: bool = False


class RollupArguments(Arguments, frozen=True, kw_only=True):
    """Of ``rollup``."""

    views: tuple[str, ...] = ()


def _compact(given: CompactArguments, work: Work) -> Done:
    settings = LakeSettings(file_bytes=given.file_bytes, dead_share=given.dead_share)
    if given.keyed:
        told = compact_keyed(
            work.store,
            given.topics,
            engine=work.engine,
            settings=settings,
            lake=work.lake,
            views_url=work.views,
            progress=work.progress,
        )
    elif work.has_no_lake():
        return Done()
    else:
        told = compact(
            work.lake_place,
            given.topics,
            engine=work.engine,
            settings=settings,
            progress=work.progress,
        )
    failure = f"{told.damaged[0].topic}: {told.damaged[0].reason}" if told.damaged else ""
    return Done(rows=told.rows_after, failure=failure)


def _scrub(given: ScrubArguments, work: Work) -> Done:
    if work.has_no_lake():
        problems = verify_store(OsDisk(), work.store, lake=False).problems if given.local else []
        return _found([(each.path, each.reason) for each in problems])
    told = scrub(
        work.lake_place,
        given.topics,
        engine=work.engine,
        store=work.store if given.local else "",
        progress=work.progress,
    )
    return _found([(each.path, each.reason) for each in told.findings])


def _found(problems: Sequence[tuple[str, str]]) -> Done:
    if not problems:
        return Done()
    path, reason = problems[0]
    return Done(failure=f"{len(problems)} problems, the first in {path}: {reason}")


def _materialize(given: MaterializeArguments, work: Work) -> Done:
    told = materialize(
        work.store,
        given.aliases,
        full=given.full,
        engine=work.engine,
        progress=work.progress,
        lake=work.lake,
        views=work.views,
    )
    failure = f"{told.failed[0].alias}: {told.failed[0].reason}" if told.failed else ""
    return Done(rows=sum(each.behind for each in told.refreshed), failure=failure)


def _import(given: ImportArguments, work: Work) -> Done:
    told = import_files(
        work.store,
        given.topic,
        given.sources,
        engine=work.engine,
        progress=work.progress,
        format=given.format,
        fields=given.fields,
        create=given.create,
        on_bad=given.on_bad,
        splittable=given.splittable,
        types=given.types,
        lake=work.lake,
    )
    return Done(rows=told.rows or 0)


def _export(given: ExportArguments, work: Work) -> Done:
    told = export(
        work.store,
        given.topic,
        given.to.replace("{due}", work.due),
        engine=work.engine,
        progress=work.progress,
        format=given.format,
        columns=given.columns,
        data=given.data,
        partition_by=given.partition_by,
        file_rows=given.file_rows,
        lake=work.lake,
    )
    return Done(rows=told.rows)


def _rebuild(given: RebuildArguments, work: Work) -> Done:
    told = rebuild(
        work.store,
        given.kind,
        given.view,
        replace=given.replace,
        engine=work.engine,
        lake=work.lake,
        views_url=work.views,
        progress=work.progress,
    )
    failure = ""
    if not told.same:
        first = ", ".join(told.differences[0].names)
        failure = f"{given.kind} {given.view} is not what its log folds into: {first}"
    return Done(rows=told.records, failure=failure)


def _rollup(given: RollupArguments, work: Work) -> Done:
    told = rollup(
        work.store,
        given.views,
        engine=work.engine,
        lake=work.lake,
        views_url=work.views,
        progress=work.progress,
    )
    return Done(rows=sum(rule.points for rule in told.rules))


PIPELINES: dict[str, Pipeline] = {
    "compact": Pipeline(
        "merge small files of the lake, drop rows that are gone", CompactArguments, _compact
    ),
    "scrub": Pipeline("read every byte again and tell what is damaged", ScrubArguments, _scrub),
    "materialize": Pipeline(
        "bring remembered queries up to date", MaterializeArguments, _materialize
    ),
    "import": Pipeline("append the rows of files to a topic, each once", ImportArguments, _import),
    "export": Pipeline("write the records of a topic to files", ExportArguments, _export),
    "rebuild": Pipeline(
        "fold a view from its log: compare it with the saved one, or replace that",
        RebuildArguments,
        _rebuild,
    ),
    "rollup": Pipeline(
        "apply the rules of series and measurements: make windows, drop what is too old",
        RollupArguments,
        _rollup,
    ),
}


def pipeline_of(name: str, known: Mapping[str, Pipeline] = PIPELINES) -> Pipeline:
    """The pipeline of this name, or an error that lists those that there are."""
    if name not in known:
        raise Invalid(f"there is no pipeline {name!r}: there are {', '.join(known)}")
    return known[name]


def arguments_of(pipeline: Pipeline, given: Mapping[str, Any]) -> Arguments:
    """Arguments as the pipeline takes them, or an error that says which is wrong."""
    known = [field.name for field in msgspec.structs.fields(pipeline.arguments)]
    for name in given:
        if name not in known:
            raise Invalid(f"there is no argument {name!r}: there are {', '.join(known)}")
    try:
        return msgspec.convert(dict(given), pipeline.arguments)
    except msgspec.ValidationError as error:
        raise Invalid(f"arguments: {error}") from error
