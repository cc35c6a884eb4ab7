"""Promise: the progress of every step of every pipeline ends with all that there was to do."""

from __future__ import annotations

import pytest

from strandline import pipelines
from tests.unit.lake.small_lake import fill, open_small


@pytest.fixture
def path(data_dir: str) -> str:
    with open_small(data_dir) as store:
        fill(store)
        store.kv("people").put_many({f"p{n}": b"x" for n in range(50)})
        load = store.metrics("machines")
        for second in range(180):
            load.write("load", {"host": "a"}, {"one": 1.0}, at=second * 10**9)
        load.downsample("load", into="load_1m", window="1m", aggregates=["max"])
        pay = store.table("pay")
        pay.define({"n": "i64"})
        pay.store_many("c", [{"n": n} for n in range(50)])
        store.run("REMEMBER QUERY pay COUNT AS figures")
        pay.store_many("c", [{"n": n} for n in range(50)])
    return data_dir


@pytest.mark.parametrize(
    "name",
    ["compact", "scrub", "export", "import", "rebuild", "rebuild table", "rollup", "materialize"],
)
def test_progress_ends_with_everything_done(path, tmp_path, name):
    (tmp_path / "teas.csv").write_text("id\n" + "".join(f"{n}\n" for n in range(500)))
    shown: dict[str, tuple[int, int]] = {}

    def show(step: str, done: int, total: int) -> None:
        assert done <= total, (step, done, total)
        shown[step] = (done, total)

    match name:
        case "compact":
            pipelines.compact(path, progress=show)
        case "scrub":
            pipelines.scrub(f"{path}/lake", store=path, progress=show)
        case "export":
            pipelines.export(path, "orders", f"{tmp_path}/out", file_rows=90, progress=show)
        case "import":
            source = f"{tmp_path}/teas.csv"
            pipelines.import_files(path, "teas", source, create=True, part_bytes=500, progress=show)
        case "rebuild":
            pipelines.rebuild(path, "kv", "people", progress=show)
        case "rebuild table":
            pipelines.rebuild(path, "table", "pay", progress=show)
        case "rollup":
            pipelines.rollup(path, ["machines"], progress=show)
        case "materialize":
            pipelines.materialize(path, progress=show)

    assert shown
    assert {step for step, (done, total) in shown.items() if done != total} == set()
