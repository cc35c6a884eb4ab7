"""Runs the demo: append, kill, recover, follow, delete, view, query, relocate. It checks itself.

    python -m examples.tour [--quick] [--store PATH] [--picture PATH]

Everything happens in a temporary folder that is removed at the end, except a store that is named
with ``--store``.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile

from examples.tour import crash, keeping, lake, live, rates, tables, views, windows
from examples.tour.scene import Scene, quick
from examples.tour.stage import Stage
from strandline.errors import StrandlineError
from strandline.platform import process


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m examples.tour", description="A tour of the project."
    )
    parser.add_argument(
        "--quick", action="store_true", help="the same with little data: a few seconds"
    )
    parser.add_argument("--store", help="create the store here and keep it")
    parser.add_argument("--picture", default="strandline-demo.png", help="file for the chart")
    options = parser.parse_args()
    if options.store and os.path.isdir(options.store) and os.listdir(options.store):
        parser.error(f"{options.store} is not empty: the demo needs a store of its own")
    process.tune_for_throughput()
    stage = Stage()
    folder = tempfile.mkdtemp(prefix="strandline-demo-")
    store = os.path.abspath(options.store) if options.store else f"{folder}/store"
    try:
        picture = os.path.abspath(options.picture)
        scene = Scene(store=store, scratch=folder, picture=picture)
        _run(stage, quick(store, folder, picture) if options.quick else scene)
        return stage.end()
    except (StrandlineError, OSError) as error:
        stage.check(False, f"{type(error).__name__}: {error}")
        return stage.end()
    except KeyboardInterrupt:
        return 130
    finally:
        shutil.rmtree(folder)


def _run(stage: Stage, scene: Scene) -> None:
    stage.console.print("[bold]Strandline[/]: one durable log, every view of it.")
    stage.console.print(f"The store is in {scene.store}", style="dim")
    for chapter in (crash, live, keeping, views, tables, lake, windows, rates):
        chapter.show(stage, scene)


if __name__ == "__main__":
    sys.exit(main())
