"""Spark over a store: DataFrames, streams and SQL. Importing this package imports pyspark.

sessions.py             sessions, local or on a cluster; the data source is registered in them
source/                 the data source ``strandline``: batch, stream, writes
read/                   what a read returns: options, locations, splits, executor tasks
row_mappers/            records as rows of a view
tables/                 topics and event tables through Spark's Parquet reader
write/                  writes through a view: validation of rows
sql/                    QUERY and SQL run by Spark
mount.py                every topic, view and table of a store as temporary views
catalog_tables.py       rejects tables of Spark's catalog, which cannot be read
formats.py              imports of formats that only Spark reads
engine.py               runs the tasks of a pipeline as a Spark job
job_progress.py         progress of a Spark job
isolated_sessions.py    sessions that share only the cluster with the session of the caller
errors.py               short error messages in place of JVM traces
jvm_messages.py         standard error of the JVM, without the warning of every start
"""

from strandline.pipelines.splits.snapshot_position import position
from strandline.spark.engine import SparkEngine
from strandline.spark.errors import explain, plain_errors
from strandline.spark.formats import import_format
from strandline.spark.mount import mount
from strandline.spark.read.read_plan import ReadPlan, plan
from strandline.spark.sessions import register, session
from strandline.spark.sql.query_api import frame, run, sql
from strandline.spark.tables.topic_table import table

__all__ = [
    "ReadPlan",
    "SparkEngine",
    "explain",
    "frame",
    "import_format",
    "mount",
    "plain_errors",
    "plan",
    "position",
    "register",
    "run",
    "session",
    "sql",
    "table",
]
