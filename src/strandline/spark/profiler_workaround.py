"""Keeps empty profiles of Spark's Python workers from ending a run of ``spark-pipelines``.

Spark 4.3 has every worker that plans a Python data source send two profiles, also when nobody has
asked for any (SPARK-59135). A client of Spark Connect that follows events, as ``spark-pipelines``
does, takes them for a mistake: everything is done, and then it fails. So a worker of ours that has
nothing to tell sends none.
"""

from __future__ import annotations

import sys

from pyspark.accumulators import SpecialAccumulatorIds, _accumulatorRegistry

_PROFILES = (SpecialAccumulatorIds.SQL_UDF_PROFIER, SpecialAccumulatorIds.SQL_UDF_PROFIER_V2)


def forget_empty_profiles() -> None:
    """In a worker without a profiler: send no profiles."""
    if sys.getprofile() is not None:
        return
    for each in _PROFILES:
        found = _accumulatorRegistry.get(each)
        if found is not None and found._deserialized and not found._value:  # a worker's own
            del _accumulatorRegistry[each]
