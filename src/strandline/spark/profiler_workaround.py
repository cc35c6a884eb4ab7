"""Prevents empty profiles of Spark's Python workers from failing a run of ``spark-pipelines``.

In Spark 4.3 every worker that plans a Python data source sends two profiles, also when profiling is
off (SPARK-59135). A client of Spark Connect that follows events, as ``spark-pipelines`` does,
treats them as an error: the run completes and then fails. A worker of this data source therefore
removes profiles that are empty.
"""

from __future__ import annotations

import sys

from pyspark.accumulators import SpecialAccumulatorIds, _accumulatorRegistry

_PROFILES = (SpecialAccumulatorIds.SQL_UDF_PROFIER, SpecialAccumulatorIds.SQL_UDF_PROFIER_V2)


def forget_empty_profiles() -> None:
    """Send no profiles from a worker without a profiler."""
    if sys.getprofile() is not None:
        return
    for each in _PROFILES:
        profile = _accumulatorRegistry.get(each)
        if profile is not None and profile._deserialized and not profile._value:  # of this worker
            del _accumulatorRegistry[each]
