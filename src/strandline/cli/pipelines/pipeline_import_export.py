"""``strandline pipeline run import`` and ``export``: files into a topic, and a topic into files."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from cyclopts import Parameter

from strandline.cli.engine_options import DEFAULT_TASK_ENGINE, TaskEngineOptions
from strandline.cli.open_store import check_store_exists
from strandline.cli.options import TARGET, Flag, Target, byte_count
from strandline.cli.output import formatting
from strandline.cli.output.formatting import OutputRow, PreparedRow, row_of
from strandline.cli.output.output import print_report
from strandline.cli.output.progress import Steps
from strandline.errors import Invalid
from strandline.pipelines.transfer import export_files
from strandline.pipelines.transfer import import_files as transfer_import_files
from strandline.pipelines.transfer.export_files import ExportSummary
from strandline.pipelines.transfer.file_formats import FORMATS
from strandline.pipelines.transfer.import_files import ImportSummary, OnBad, Types
from strandline.pipelines.transfer.row_mapping import BadRow, Fields
from strandline.records import Tombstone

Topic = Annotated[str, Parameter(help="Name of the topic.")]
File = Annotated[
    str, Parameter(metavar="FILES", help="Paths, folders, patterns, or URLs of an object store.")
]
DryRun = Annotated[Flag, Parameter(help="Only report what would be done.")]


@Parameter(name="*", group="Mapping of columns")
@dataclasses.dataclass(frozen=True, kw_only=True)
class _FieldMappingOptions:
    """The column of each field of a record."""

    data: Annotated[str, Parameter(help="Column for data. Default: the row as JSON.")] = ""
    key: Annotated[str, Parameter(help="Column for the key.")] = ""
    tag: Annotated[str, Parameter(help="Column for the tag.")] = ""
    tag_value: Annotated[str, Parameter(help="One tag for all records.")] = ""
    node: Annotated[str, Parameter(help="Column for the node.")] = ""
    node_value: Annotated[str, Parameter(help="One node for all records.")] = ""
    meta: Annotated[str, Parameter(help="Column for meta.")] = ""
    base64: Annotated[
        Flag, Parameter(help="Columns for data, key and meta hold base64, as export writes it.")
    ] = False

    def fields(self) -> Fields:
        return Fields(**dataclasses.asdict(self))


@Parameter(name="*", group="How files are read")
@dataclasses.dataclass(frozen=True, kw_only=True)
class _FileReadOptions:
    """Options for reading files into rows, and rows into parts."""

    format: Annotated[
        str,
        Parameter(
            help="parquet, csv, json, jsonl; auto uses the file names. With --engine spark also "
            "other formats of Spark: orc, delta, iceberg, avro."
        ),
    ] = "auto"
    on_bad: Annotated[
        OnBad, Parameter(help="Rows that cannot become records: fail, or skip and count them.")
    ] = "fail"
    splittable: Annotated[
        Flag, Parameter(help="No value of a CSV file has a line break: large files may be split.")
    ] = False
    types: Annotated[
        Types,
        Parameter(
            help="Values of CSV files: infer numbers from the schema of the topic, else from the "
            "whole column; or keep all as text. auto infers, unless the import was started as text."
        ),
    ] = "auto"
    part_size: Annotated[
        str, Parameter(metavar="SIZE", help="Deliver rows in parts of about this size.")
    ] = "64MiB"


@Parameter(name="*", group="Which records")
@dataclasses.dataclass(frozen=True, kw_only=True)
class _RecordRangeOptions:
    """The range of records of a topic."""

    begin: Annotated[
        str, Parameter(name="--from", help="The first record: a seq, or a time in ISO format.")
    ] = ""
    until: Annotated[str, Parameter(help="The end, exclusive: a seq, or a time in ISO format.")] = (
        ""
    )
    as_of: Annotated[str, Parameter(help="Only the records of this time or position.")] = ""


@Parameter(name="*", group="How files are written")
@dataclasses.dataclass(frozen=True, kw_only=True)
class _FileWriteOptions:
    """Options for writing records into files."""

    format: Annotated[
        Literal["parquet", "csv", "jsonl"], Parameter(help="Format of the files.")
    ] = "parquet"
    columns: Annotated[
        str, Parameter(help="Columns, separated by commas: seq,ts,data. Default: all.")
    ] = ""
    data: Annotated[
        Literal["binary", "text", "json"] | None,
        Parameter(
            help="Data as bytes (base64 in text files), as text, or as JSON: a column for each "
            "field. Default: binary for Parquet, else text."
        ),
    ] = None
    partition_by: Annotated[
        Literal["day", "hour", "tag"] | None, Parameter(help="A folder for each: day=2026-11-16/.")
    ] = None
    file_rows: Annotated[
        int, Parameter(help="Maximum of seqs in a file. Default: files of about 128 MiB.")
    ] = 0


NO_FIELDS = _FieldMappingOptions()
_DEFAULT_READ_OPTIONS = _FileReadOptions()
ALL_RECORDS = _RecordRangeOptions()
_DEFAULT_WRITE_OPTIONS = _FileWriteOptions()


def import_files(
    *files: File,
    topic: Topic,
    id: Annotated[
        str, Parameter(help="Identity of a repeated import. Default: derived from its files.")
    ] = "",
    create: Annotated[Flag, Parameter(help="Create the topic if it does not exist.")] = False,
    dry_run: DryRun = False,
    reading: _FileReadOptions = _DEFAULT_READ_OPTIONS,
    fields: _FieldMappingOptions = NO_FIELDS,
    where: TaskEngineOptions = DEFAULT_TASK_ENGINE,
    target: Target = TARGET,
) -> None:
    """Import files into a topic, every row once, in the order of the files.

    FILES are paths, folders, patterns such as "data/*.csv", or URLs of an object store. The store
    may be open in another process, which then appends the rows. After a kill, the same command
    resumes the import.
    """
    check_store_exists(target.store)
    if reading.format in ("auto", *FORMATS):
        with Steps() as steps:
            summary = transfer_import_files.import_files(
                target.store,
                topic,
                files,
                engine=where.chooser(steps.show),
                dry_run=dry_run,
                progress=steps.show,
                format=reading.format,
                fields=fields.fields(),
                id=id,
                create=create,
                on_bad=reading.on_bad,
                splittable=reading.splittable,
                types=reading.types,
                lake=target.lake_url,
                part_bytes=byte_count(reading.part_size),
            )
    elif where.engine != "spark":
        raise Invalid(
            f"--format is auto, {', '.join(FORMATS)}, not {reading.format!r}: with --engine spark "
            "also the formats of Spark"
        )
    else:
        from strandline.spark import import_format  # noqa: PLC0415 - optional, and slow to import

        summary = import_format(
            where.session,
            target.store,
            topic,
            files,
            reading.format,
            dry_run=dry_run,
            fields=fields.fields(),
            id=id,
            create=create,
            lake=target.lake_url,
        )
    _print_import(summary, target)


def _print_import(summary: ImportSummary, target: Target) -> None:
    lists: dict[str, Sequence[OutputRow]] = {
        "skipped": [_bad_row(each) for each in summary.bad],
        "values that do not match the schema": [row_of(each) for each in summary.misfits],
    }
    print_report(target.output, row_of(summary, _import_facts(summary)), lists)


def export(
    *,
    topic: Topic,
    to: Annotated[str, Parameter(metavar="URL", help="A new folder, or s3://bucket/prefix, ….")],
    dry_run: DryRun = False,
    records: _RecordRangeOptions = ALL_RECORDS,
    writing: _FileWriteOptions = _DEFAULT_WRITE_OPTIONS,
    where: TaskEngineOptions = DEFAULT_TASK_ENGINE,
    target: Target = TARGET,
) -> None:
    """Export the records of a topic to files, as they are now.

    The store may be open in another process, which continues to write. After a kill, the same
    command resumes the export of the same records.
    """
    check_store_exists(target.store)
    with Steps() as steps:
        summary = export_files.export(
            target.store,
            topic,
            to,
            engine=where.chooser(steps.show),
            dry_run=dry_run,
            progress=steps.show,
            format=writing.format,
            columns=[name.strip() for name in writing.columns.split(",") if name.strip()],
            data=writing.data or "",
            from_=records.begin,
            until=records.until,
            as_of=records.as_of,
            partition_by=writing.partition_by or "",
            file_rows=writing.file_rows,
            lake=target.lake_url,
        )
    lists: dict[str, Sequence[OutputRow]] = {"lost": [_lost_row(each) for each in summary.lost]}
    print_report(target.output, row_of(summary, _export_facts(summary)), lists)


def _import_facts(summary: ImportSummary) -> dict[str, str]:
    rows = "not known before they are read" if summary.rows is None else str(summary.rows)
    before = f", {summary.parts_before} of them before" if summary.parts_before else ""
    facts = {
        "result": _result(dry_run=summary.dry_run, complete=summary.complete),
        "topic": summary.topic,
        "id": summary.id,
        "files": f"{summary.files} with {formatting.size(summary.bytes)}",
        "parts": f"{summary.parts}{before}",
        "rows": rows,
    }
    if summary.rows_skipped:
        facts["skipped"] = f"{summary.rows_skipped} bad rows"
    if summary.misfits:
        facts["mismatched"] = f"{sum(each.count for each in summary.misfits)} values"
    return facts | {"engine": summary.engine, "seconds": f"{summary.seconds:.1f}"}


def _export_facts(summary: ExportSummary) -> dict[str, str]:
    before = f", {summary.ranges_before} of them before" if summary.ranges_before else ""
    most = "at most " if summary.dry_run else ""
    seqs = f"{summary.first_seq} to {summary.last_seq}"
    facts = {
        "result": _result(dry_run=summary.dry_run, complete=summary.complete),
        "topic": summary.topic,
        "to": formatting.plain(summary.to),
        "seqs": seqs if summary.first_seq <= summary.last_seq else "none",
        "ranges": f"{summary.ranges}{before}",
        "files": f"{summary.files} with {formatting.size(summary.bytes)}",
        "rows": f"{most}{summary.rows}",
    }
    if summary.lost:
        facts["lost"] = f"{sum(each.missed for each in summary.lost)} seqs"
    return facts | {"engine": summary.engine, "seconds": f"{summary.seconds:.1f}"}


def _result(*, dry_run: bool, complete: bool) -> str:
    if complete:
        return "already complete: nothing to do"
    return "nothing was done (dry run)" if dry_run else "done"


def _bad_row(bad: BadRow) -> OutputRow:
    columns = {
        "file": formatting.plain(bad.file),
        "row": str(bad.row),
        "reason": formatting.plain(bad.reason),
    }
    return PreparedRow(msgspec.to_builtins(bad), columns)


def _lost_row(lost: Tombstone) -> OutputRow:
    columns = {"from": str(lost.gap_from), "to": str(lost.gap_to), "reason": lost.reason}
    return PreparedRow(msgspec.to_builtins(lost), columns)
