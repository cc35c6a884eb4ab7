"""Pipelines that can be declared: one entry each, with name, arguments and function.

Arguments are structs, so that a declaration is checked when it is read, and not when it is due.
``run`` gets them with a ``Work`` and returns what was done; a result that needs attention, such as
damage, is returned in ``failure`` and makes the run a failed one.

All of them work without the store's lock, beside the process that has it open.
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
    """Arguments of a declared pipeline."""


class RunContext(NamedTuple):
    """The store, the engine and the context of a run."""

    store: str
    lake: str
    """Url of the lake; "": in the store's folder."""
    views: str
    """Url of saved views; "": in the store's folder."""
    due: str
    """The due time, as 20261117T030000Z: replaces ``{due}`` in paths."""
    engine: Engine
    progress: Progress

    @property
    def lake_place(self) -> str:
        return self.lake or Layout(self.store).lake

    def has_no_lake(self) -> bool:
        """Whether no record was ever moved to the lake in the store's folder: not an error."""
        if self.lake:
            return False
        objects = open_objects(Layout(self.store).lake)
        try:
            return identity_of(objects) is None
        finally:
            objects.close()


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a run."""

    rows: int = 0
    failure: str = ""


class Pipeline(NamedTuple):
    """One pipeline that can be declared."""

    description: str
    """A short description for lists."""
    arguments: type[Arguments]
    run: Callable[[Any, RunContext], RunResult]


class CompactArguments(Arguments, frozen=True, kw_only=True):
    """Arguments of ``compact``."""

    topics: tuple[str, ...] = ()
    keyed: bool = False
    """Whether key-value topics are first compacted by key: ``compact_keyed``."""
    file_bytes: int = LakeSettings().file_bytes
    dead_share: float = LakeSettings().dead_share


class ScrubArguments(Arguments, frozen=True, kw_only=True):
    """Arguments of ``scrub``."""

    topics: tuple[str, ...] = ()
    local: bool = True
    """Whether the store's own files are read too."""


class MaterializeArguments(Arguments, frozen=True, kw_only=True):
    """Arguments of ``materialize``."""

    aliases: tuple[str, ...] = ()
    full: bool = False
    """Whether everything is computed again."""


class ImportArguments(Arguments, frozen=True, kw_only=True):
    """Arguments of ``import``."""

    topic: str
    sources: tuple[str, ...]
    format: str = "auto"
    fields: Fields = Fields()
    create: bool = False
    on_bad: OnBad = "fail"
    splittable: bool = False
    types: Types = "auto"


class ExportArguments(Arguments, frozen=True, kw_only=True):
    """Arguments of ``export``."""

    topic: str
    to: str
    """A folder or url; ``{due}`` in it is replaced by the due time."""
    format: str = "parquet"
    columns: tuple[str, ...] = ()
    data: str = ""
    partition_by: str = ""
    file_rows: int = 0


class RebuildArguments(Arguments, frozen=True, kw_only=True):
    """Arguments of ``rebuild``: the view is compared, or replaced with ``replace``."""

    kind: str
    view: str
    replace: bool = False


class RollupArguments(Arguments, frozen=True, kw_only=True):
    """Arguments of ``rollup``."""

    views: tuple[str, ...] = ()


def _compact(arguments: CompactArguments, work: RunContext) -> RunResult:
    settings = LakeSettings(file_bytes=arguments.file_bytes, dead_share=arguments.dead_share)
    if arguments.keyed:
        summary = compact_keyed(
            work.store,
            arguments.topics,
            engine=work.engine,
            settings=settings,
            lake=work.lake,
            views_url=work.views,
            progress=work.progress,
        )
    elif work.has_no_lake():
        return RunResult()
    else:
        summary = compact(
            work.lake_place,
            arguments.topics,
            engine=work.engine,
            settings=settings,
            progress=work.progress,
        )
    failure = f"{summary.damaged[0].topic}: {summary.damaged[0].reason}" if summary.damaged else ""
    return RunResult(rows=summary.rows_after, failure=failure)


def _scrub(arguments: ScrubArguments, work: RunContext) -> RunResult:
    if work.has_no_lake():
        problems = (
            verify_store(OsDisk(), work.store, lake=False).problems if arguments.local else []
        )
        return _scrub_result([(each.path, each.reason) for each in problems])
    summary = scrub(
        work.lake_place,
        arguments.topics,
        engine=work.engine,
        store=work.store if arguments.local else "",
        progress=work.progress,
    )
    return _scrub_result([(each.path, each.reason) for each in summary.findings])


def _scrub_result(problems: Sequence[tuple[str, str]]) -> RunResult:
    if not problems:
        return RunResult()
    path, reason = problems[0]
    return RunResult(failure=f"{len(problems)} problems, the first in {path}: {reason}")


def _materialize(arguments: MaterializeArguments, work: RunContext) -> RunResult:
    summary = materialize(
        work.store,
        arguments.aliases,
        full=arguments.full,
        engine=work.engine,
        progress=work.progress,
        lake=work.lake,
        views=work.views,
    )
    failure = f"{summary.failed[0].alias}: {summary.failed[0].reason}" if summary.failed else ""
    return RunResult(rows=sum(each.behind for each in summary.refreshed), failure=failure)


def _import(arguments: ImportArguments, work: RunContext) -> RunResult:
    summary = import_files(
        work.store,
        arguments.topic,
        arguments.sources,
        engine=work.engine,
        progress=work.progress,
        format=arguments.format,
        fields=arguments.fields,
        create=arguments.create,
        on_bad=arguments.on_bad,
        splittable=arguments.splittable,
        types=arguments.types,
        lake=work.lake,
    )
    return RunResult(rows=summary.rows or 0)


def _export(arguments: ExportArguments, work: RunContext) -> RunResult:
    summary = export(
        work.store,
        arguments.topic,
        arguments.to.replace("{due}", work.due),
        engine=work.engine,
        progress=work.progress,
        format=arguments.format,
        columns=arguments.columns,
        data=arguments.data,
        partition_by=arguments.partition_by,
        file_rows=arguments.file_rows,
        lake=work.lake,
    )
    return RunResult(rows=summary.rows)


def _rebuild(arguments: RebuildArguments, work: RunContext) -> RunResult:
    summary = rebuild(
        work.store,
        arguments.kind,
        arguments.view,
        replace=arguments.replace,
        engine=work.engine,
        lake=work.lake,
        views_url=work.views,
        progress=work.progress,
    )
    failure = ""
    if not summary.same:
        first = ", ".join(summary.differences[0].names)
        failure = f"{arguments.kind} {arguments.view} differs from its rebuild: {first}"
    return RunResult(rows=summary.records, failure=failure)


def _rollup(arguments: RollupArguments, work: RunContext) -> RunResult:
    summary = rollup(
        work.store,
        arguments.views,
        engine=work.engine,
        lake=work.lake,
        views_url=work.views,
        progress=work.progress,
    )
    return RunResult(rows=sum(rule.points for rule in summary.rules))


PIPELINES: dict[str, Pipeline] = {
    "compact": Pipeline(
        "merge small files of the lake, drop removed rows", CompactArguments, _compact
    ),
    "scrub": Pipeline("read every byte again and report damage", ScrubArguments, _scrub),
    "materialize": Pipeline("refresh materialized queries", MaterializeArguments, _materialize),
    "import": Pipeline("append the rows of files to a topic, each once", ImportArguments, _import),
    "export": Pipeline("write the records of a topic to files", ExportArguments, _export),
    "rebuild": Pipeline(
        "rebuild a view from its log: compare it with the saved one, or replace that",
        RebuildArguments,
        _rebuild,
    ),
    "rollup": Pipeline(
        "apply the rules of series and metrics: compute windows, delete old points",
        RollupArguments,
        _rollup,
    ),
}


def pipeline_of(name: str, known: Mapping[str, Pipeline] = PIPELINES) -> Pipeline:
    """The pipeline of this name; Invalid with a list of all if there is none."""
    if name not in known:
        raise Invalid(f"there is no pipeline {name!r}: use one of {', '.join(known)}")
    return known[name]


def arguments_of(pipeline: Pipeline, arguments: Mapping[str, Any]) -> Arguments:
    """Convert arguments for a pipeline; Invalid names the wrong one."""
    known = [field.name for field in msgspec.structs.fields(pipeline.arguments)]
    for name in arguments:
        if name not in known:
            raise Invalid(f"there is no argument {name!r}: use one of {', '.join(known)}")
    try:
        return msgspec.convert(dict(arguments), pipeline.arguments)
    except msgspec.ValidationError as error:
        raise Invalid(f"arguments: {error}") from error
