"""Entry point of a pipeline run under ``spark-submit``."""

import sys

if __name__ == "__main__":
    # Python puts the folder of this file first: its modules must not shadow those of others.
    del sys.path[0]

from strandline.pipelines.engine import Engine
from strandline.pipelines.schedule.worker_main import run_order
from strandline.spark.engine import SparkEngine
from strandline.spark.sessions import session


def _spark(master: str) -> Engine:
    return SparkEngine(session(master))


if __name__ == "__main__":
    sys.exit(run_order(sys.argv[1], _spark))
