"""Work over a whole lake, cut into tasks that any engine runs. Never imports pyspark.

engine.py     what runs tasks: threads here; ``strandline.spark`` has the other one
lakes.py      which lake, and which of its topics
groups.py     which files a compaction merges
merge.py      one task of a compaction
compact.py    merges small files, drops rows that are gone
scrub.py      reads every byte again and tells what is damaged
"""

from strandline.pipelines.compact import CompactSummary, SkippedGroup, compact
from strandline.pipelines.engine import Embedded, Engine, choose
from strandline.pipelines.scrub import ScrubFinding, ScrubSummary, scrub

__all__ = [
    "CompactSummary",
    "Embedded",
    "Engine",
    "ScrubFinding",
    "ScrubSummary",
    "SkippedGroup",
    "choose",
    "compact",
    "scrub",
]
