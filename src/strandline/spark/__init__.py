"""Spark over a store: tables and streams of topics. Importing this package imports pyspark.

sessions.py     a quiet session, local or on a cluster; what is missing told in one line
options.py      what a read may be told, checked
conditions.py   comparisons of columns: what they skip, and which rows they keep
columns.py      the columns of a record as Spark and Arrow know them
positions.py    one position of a store that every reader of a query shares
plans.py        which files, zones and local records a query needs, cut into tasks
tasks.py        one task on an executor: Arrow batches
source.py       spark.read.format("strandline"), and readStream
readers.py      batch
streams.py      offsets, admission, loss
tables.py       Spark's own Parquet reader over lake files, and the records that are not there
failures.py     a short error in place of a long trace
"""

from strandline.spark.failures import explain, plain_errors
from strandline.spark.plans import Plan, plan
from strandline.spark.positions import position
from strandline.spark.sessions import register, session
from strandline.spark.tables import table

__all__ = ["Plan", "explain", "plain_errors", "plan", "position", "register", "session", "table"]
