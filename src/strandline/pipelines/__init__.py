"""Batch jobs over a store or a lake, split into tasks that any engine runs. No pyspark here.

engine.py               runs tasks: threads of this process; ``strandline.spark`` has the other
lake_selection.py       selects the lake and its topics
splits/                 input splits: a consistent position, planned and read by tasks
compaction/             merges small files; removes rows that no reader can see
transfer/               imports files into a topic; exports a topic into files
view_rebuild/           computes a view again from its log; compares or replaces the saved one
rollup.py               applies the rules of metrics and series
materialize.py          refreshes materialized queries
scrub.py                reads all bytes of a lake again and reports damage
delivery_client.py      delivers staged rows to the process that has the store open
view_handoff_client.py  delivers computed view state to that process
schedule/               runs the pipelines that a store declares, when they are due
"""

from strandline.config.pipeline_config import DeclaredPipeline
from strandline.pipelines.compaction.compact import CompactSummary, SkippedGroup, compact
from strandline.pipelines.compaction.compact_by_key import compact_keyed
from strandline.pipelines.engine import Embedded, Engine, by_size, choose
from strandline.pipelines.materialize import (
    FailedRefresh,
    MaterializeSummary,
    RefreshedQuery,
    materialize,
)
from strandline.pipelines.rollup import RolledRule, RollupSummary, rollup
from strandline.pipelines.schedule.scheduler import PipelineScheduler
from strandline.pipelines.scrub import ScrubFinding, ScrubSummary, scrub
from strandline.pipelines.transfer.export_files import ExportSummary, export
from strandline.pipelines.transfer.import_files import ImportSummary, import_files
from strandline.pipelines.transfer.row_mapping import BadRow, Fields
from strandline.pipelines.view_rebuild.rebuild_view import rebuild
from strandline.pipelines.view_rebuild.summary import Difference, RebuildSummary

__all__ = [
    "BadRow",
    "CompactSummary",
    "DeclaredPipeline",
    "Difference",
    "Embedded",
    "Engine",
    "ExportSummary",
    "FailedRefresh",
    "Fields",
    "ImportSummary",
    "MaterializeSummary",
    "PipelineScheduler",
    "RebuildSummary",
    "RefreshedQuery",
    "RolledRule",
    "RollupSummary",
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
