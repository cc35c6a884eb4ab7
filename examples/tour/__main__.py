"""Plays the demo: append, kill, recover, follow, keep, view, ask, move, count. It checks itself.

    python -m examples.tour [--quick] [--store PATH] [--picture PATH]

Everything happens in a temporary folder that is removed at the end; a store named with ``--store``
stays.
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
    parser = argparse.ArgumentParser(prog="python -m examples.tour", description="The tour.")
    parser.add_argument("--quick", action="store_true", help="the same, small: a few seconds")
    parser.add_argument("--store", help="put the store here, and leave it there")
    parser.add_argument("--picture", default="strandline-demo.png", help="draw here")
    asked = parser.parse_args()
    if asked.store and os.path.isdir(asked.store) and os.listdir(asked.store):
        parser.error(f"{asked.store} is not empty: the demo wants a store of its own")
    process.tune_for_throughput()
    stage = Stage()
    folder = tempfile.mkdtemp(prefix="strandline-demo-")
    store = os.path.abspath(asked.store) if asked.store else f"{folder}/store"
    try:
        picture = os.path.abspath(asked.picture)
        scene = Scene(store=store, scratch=folder, picture=picture)
        _play(stage, quick(store, folder, picture) if asked.quick else scene)
        return stage.end()
    except (StrandlineError, OSError) as error:
        stage.check(False, f"{type(error).__name__}: {error}")
        return stage.end()
    except KeyboardInterrupt:
        return 130
    finally:
        shutil.rmtree(folder)


def _play(stage: Stage, scene: Scene) -> None:
    stage.console.print("[bold]Strandline[/]: one durable log, every view of it.")
    stage.console.print(f"The store is in {scene.store}", style="dim")
    for chapter in (crash, live, keeping, views, tables, lake, windows, rates):
        chapter.show(stage, scene)


if __name__ == "__main__":
    sys.exit(main())
