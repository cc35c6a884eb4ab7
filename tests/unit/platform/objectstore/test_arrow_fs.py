"""Promise: Arrow reads from any object store that Strandline can open, and only reads."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from strandline.errors import ObjectStoreDenied
from strandline.platform.objectstore.arrow_fs import file_system
from strandline.platform.objectstore.cloud import open_objects
from strandline.platform.objectstore.protocol import Objects
from strandline.testing.sim_objects import SimObjects

TABLE = pa.table({"seq": range(1000), "data": [b"x" * (seq % 50) for seq in range(1000)]})


def stored(objects: Objects) -> Objects:
    sink = pa.BufferOutputStream()
    pq.write_table(TABLE, sink, row_group_size=100)
    objects.put("topics/a.parquet", sink.getvalue().to_pybytes())
    return objects


@pytest.mark.parametrize("kind", ["sim", "memory", "folder"])
def test_a_table_is_read_from_any_store(kind: str, data_dir: str):
    objects = (
        SimObjects()
        if kind == "sim"
        else open_objects("memory://" if kind == "memory" else data_dir)
    )

    system, before = file_system(stored(objects))

    assert pq.read_table(f"{before}topics/a.parquet", filesystem=system) == TABLE
    assert ds.dataset([f"{before}topics/a.parquet"], filesystem=system).count_rows() == 1000


def test_a_folder_is_the_local_file_system_of_arrow(data_dir: str):
    system, before = file_system(open_objects(data_dir))

    assert isinstance(system, fs.LocalFileSystem)
    assert before == f"{data_dir}/"


def test_a_file_is_read_from_any_place_to_its_end():
    objects = stored(SimObjects())
    system, _ = file_system(objects)
    whole = objects.head("topics/a.parquet").size

    with system.open_input_file("topics/a.parquet") as file:
        file.seek(whole - 4)
        end, nothing = file.read(), file.read(10)

    assert (end, nothing) == (b"PAR1", b"")


def test_absence_is_told():
    system, _ = file_system(SimObjects())

    assert system.get_file_info("topics/b.parquet").type == fs.FileType.NotFound
    with pytest.raises(FileNotFoundError, match=r"topics/b\.parquet"):
        system.open_input_file("topics/b.parquet")


def test_the_error_of_the_store_reaches_the_reader():
    objects = stored(SimObjects())
    system, _ = file_system(objects)
    objects.fail("get_ranges", how="denied")

    with pytest.raises(ObjectStoreDenied):
        pq.read_table("topics/a.parquet", filesystem=system)


def test_nothing_can_be_written():
    objects = stored(SimObjects())
    system, _ = file_system(objects)

    for act in (
        lambda: system.open_output_stream("b"),
        lambda: system.open_append_stream("b"),
        lambda: system.delete_file("topics/a.parquet"),
        lambda: system.delete_dir("topics"),
        lambda: system.delete_dir_contents("topics"),
        lambda: system.create_dir("folder"),
        lambda: system.move("topics/a.parquet", "b"),
        lambda: system.copy_file("topics/a.parquet", "b"),
    ):
        with pytest.raises(OSError, match="the lake is read-only here"):
            act()

    assert [info.path for info in system.get_file_info(fs.FileSelector("topics"))] == [
        "topics/a.parquet"
    ]
