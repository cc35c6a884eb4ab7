"""Work over a whole store or lake, cut into tasks that any engine runs. Never imports pyspark.

engine.py        what runs tasks: threads here; ``strandline.spark`` has the other one
lakes.py         which lake, and which of its topics
groups.py        which files a compaction merges
merge.py         one task of a compaction
table_merge.py   the same for files of an event table
compact.py       merges small files, drops rows that are gone
materialize.py   remembered queries brought up to date, or made anew
keyed.py         the same for key-value topics: superseded versions and forgotten keys go first
scrub.py         reads every byte again and tells what is damaged
positions.py     one position of a store that all tasks of a read share
conditions.py    comparisons of columns: what they skip, and which rows they keep
columns.py       the columns of a record as tasks read them
cuts.py          which files, zones and local records a read needs, cut into parts
parts.py         one task of a read: Arrow batches

deliver.py       staged rows into a topic, once, whoever has the store open
importing.py     files into a topic
formats.py       the files of an import: cut into slices, and read
mapping.py       rows as records, and rows that cannot be
encoding.py      a row as JSON
exporting.py     a topic into files
export_plan.py   which seqs, and the ranges into which they are cut
rendering.py     records as Parquet, CSV, JSON lines
expanding.py     fields of JSON as columns

schedule/        pipelines that a store declares, run when they are due
rebuild.py       a view from its log: compared with the saved one, or put in its place
rollup.py        rules of series and measurements: windows made by tasks, what is too old let go
hand_over.py     what was made for a view to the process that has the store open
refold/          the tasks of a rebuild
"""

from strandline.pipeline_config import Declared
from strandline.pipelines.compact import CompactSummary, SkippedGroup, compact
from strandline.pipelines.engine import Embedded, Engine, by_size, choose
from strandline.pipelines.exporting import ExportSummary, export
from strandline.pipelines.importing import ImportSummary, import_files
from strandline.pipelines.keyed import compact_keyed
from strandline.pipelines.mapping import BadRow, Fields
from strandline.pipelines.materialize import (
    FailedRefresh,
    MaterializeSummary,
    Refreshed,
    materialize,
)
from strandline.pipelines.rebuild import rebuild
from strandline.pipelines.refold.summary import Difference, RebuildSummary
from strandline.pipelines.rollup import RolledRule, RollupSummary, rollup
from strandline.pipelines.schedule.schedule import Schedule
from strandline.pipelines.scrub import ScrubFinding, ScrubSummary, scrub

__all__ = [
    "BadRow",
    "CompactSummary",
    "Declared",
    "Difference",
    "Embedded",
    "Engine",
    "ExportSummary",
    "FailedRefresh",
    "Fields",
    "ImportSummary",
    "MaterializeSummary",
    "RebuildSummary",
    "Refreshed",
    "RolledRule",
    "RollupSummary",
    "Schedule",
    "ScrubFinding",
    "ScrubSummary",
    "SkippedGroup",
    "by_size",
    "choose",
    "compact",
    "compact_keyed",
    "export",
    "import_files",
    "materialize",
    "rebuild",
    "rollup",
    "scrub",
]
