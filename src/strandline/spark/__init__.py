"""Spark over a store: tables and streams of topics. Importing this package imports pyspark.

sessions.py     a quiet session, local or on a cluster; what is missing told in one line
options.py      what a read may be told, checked
filters.py      conditions as Spark says them
schema.py       the columns of a record as Spark knows them
plans.py        what a query will read; ``strandline.pipelines`` cuts it into parts and reads them
places.py       a store's folder; outside.py a lake alone; served.py a server over HTTP
saved.py        views out of their reservoir, without the folder
tasks.py        what a task reads; reading.py reads it
source.py       spark.read.format("strandline"), and readStream
readers.py      batch
streams.py      offsets, admission, loss
writers.py      rows into a topic, exactly once
views.py        a topic as one of its views: states.py in batch, events.py and event_tables.py for
                event tables, typed.py as a stream; kinds/ makes rows of records
targets.py      writes through views; fitting.py finds the rows that do not fit
formats.py      imports of what only Spark can read
tables.py       Spark's own Parquet reader over lake files, and the records that are not there
mount.py        everything that a store has as temporary views
catalog_tables.py   refuses what could not be read: tables of Spark's catalog
rows.py         event tables: their files and what is in none, at one position
asking.py       the doors to questions
questions.py    QUERY and the like, answered by Spark
statements.py   SQL over everything, answered by Spark
rooms.py        sessions in which questions are asked
watching.py     how far a job is
engine.py       runs the tasks of a pipeline
jvm_messages.py the JVM's standard error, without a warning
failures.py     a short error in place of a long trace
"""

from strandline.pipelines.positions import position
from strandline.spark.asking import frame, run, sql
from strandline.spark.engine import SparkEngine
from strandline.spark.failures import explain, plain_errors
from strandline.spark.formats import import_format
from strandline.spark.mount import mount
from strandline.spark.plans import Plan, plan
from strandline.spark.sessions import register, session
from strandline.spark.tables import table

__all__ = [
    "Plan",
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
