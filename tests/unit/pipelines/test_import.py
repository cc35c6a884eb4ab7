"""Promise: an import appends every row of its files once, in their order, whatever happens."""

from __future__ import annotations

import gzip
import threading
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import strandline
from strandline.config.settings import LimitSettings, Settings
from strandline.errors import Invalid, TooLarge, UnknownTopic
from strandline.ingest import staged_files
from strandline.pipelines import Fields, import_files
from tests.unit.pipelines.transfers import Died, Dying, datas, make_store, records, staged, write


def lines(first: int, count: int) -> str:
    return "".join(f'{{"n":{number}}}\n' for number in range(first, first + count))


def numbers(count: int) -> list[bytes]:
    return [b'{"n":%d}' % number for number in range(count)]


def test_files_of_a_folder_are_imported_in_the_order_of_their_names(data_dir: str, tmp_path: Path):
    make_store(data_dir)
    write(tmp_path, "in/b.jsonl", lines(2, 2))
    write(tmp_path, "in/c/d.ndjson.gz", gzip.compress(lines(4, 2).encode()))
    write(tmp_path, "in/d.json", '[{"n": 6},\n {"n":7}]')
    write(tmp_path, "in/e.csv", "n\n8\n")
    write(tmp_path, "in/_SUCCESS", "no data")
    pq.write_table(pa.table({"n": [0, 1]}), tmp_path / "in/a.parquet")

    summary = import_files(data_dir, "t", str(tmp_path / "in"))

    assert datas(data_dir) == [*numbers(8), b'{"n":8}']
    assert (summary.files, summary.rows, summary.parts) == (5, 9, 1)
    assert staged(data_dir) == []


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(
        st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), max_size=9), max_size=12
    ),
    part_bytes=st.integers(10, 200),
    kind=st.sampled_from(["jsonl", "csv", "parquet"]),
)
def test_however_files_are_cut_the_rows_are_the_same(
    tmp_path_factory: pytest.TempPathFactory, rows: list[str], part_bytes: int, kind: str
):
    folder = tmp_path_factory.mktemp("any")
    data_dir = make_store(str(folder / "data"))
    table = pa.table({"x": pa.array(rows, pa.string()), "y": pa.array(["é"] * len(rows))})
    path = str(folder / f"rows.{kind}")
    if kind == "parquet":
        pq.write_table(table, path, row_group_size=3)
    elif kind == "csv":
        pa.csv.write_csv(table, path)
    else:
        whole = "".join(f"{row}\n\n" for row in map(as_json, rows))
        write(folder, "rows.jsonl", whole.removesuffix("\n"))

    import_files(data_dir, "t", path, part_bytes=part_bytes, splittable=True, types="text")

    assert datas(data_dir) == [as_json(row).encode() for row in rows]


def as_json(text: str) -> str:
    return msgspec.json.encode({"x": text, "y": "é"}).decode()


@pytest.mark.parametrize("results", range(6))
def test_an_import_that_died_goes_on_and_repeats_nothing(
    data_dir: str, tmp_path: Path, results: int
):
    make_store(data_dir)
    path = write(tmp_path, "rows.jsonl", lines(0, 100))
    with pytest.raises(Died):
        import_files(data_dir, "t", path, part_bytes=160, engine=Dying(results))
    before = datas(data_dir)

    summary = import_files(data_dir, "t", path, part_bytes=160)

    assert before == numbers(len(before))
    assert datas(data_dir) == numbers(100)
    assert summary.parts_before == results
    assert summary.rows == 100 - len(before)


def test_an_import_that_is_complete_appends_nothing(data_dir: str, tmp_path: Path):
    make_store(data_dir)
    path = write(tmp_path, "rows.jsonl", lines(0, 10))
    first = import_files(data_dir, "t", path)

    again = import_files(data_dir, "t", path)

    assert (first.complete, again.complete, again.rows) == (False, True, 0)
    assert datas(data_dir) == numbers(10)


def test_a_file_that_changed_under_an_id_is_refused(data_dir: str, tmp_path: Path):
    make_store(data_dir)
    path = write(tmp_path, "rows.jsonl", lines(0, 10))
    import_files(data_dir, "t", path, id="nightly")
    write(tmp_path, "rows.jsonl", lines(0, 12))

    with pytest.raises(Invalid, match="'nightly' was started with other files"):
        import_files(data_dir, "t", path, id="nightly")

    assert datas(data_dir) == numbers(10)


def test_other_fields_under_an_id_are_refused(data_dir: str, tmp_path: Path):
    make_store(data_dir)
    path = write(tmp_path, "rows.jsonl", lines(0, 10))
    import_files(data_dir, "t", path, id="nightly")

    with pytest.raises(Invalid, match="other fields"):
        import_files(data_dir, "t", path, id="nightly", fields=Fields(key="n"))


def test_the_same_files_go_into_another_topic(data_dir: str, tmp_path: Path):
    make_store(data_dir, "t", "u")
    path = write(tmp_path, "rows.jsonl", lines(0, 3))
    import_files(data_dir, "t", path)

    import_files(data_dir, "u", path)

    assert datas(data_dir, "u") == numbers(3)


def test_a_topic_is_made_only_when_told(data_dir: str, tmp_path: Path):
    make_store(data_dir)
    path = write(tmp_path, "rows.jsonl", lines(0, 3))

    with pytest.raises(UnknownTopic) as caught:
        import_files(data_dir, "new", path)
    import_files(data_dir, "new", path, create=True)
    again = import_files(data_dir, "new", path, create=True)

    assert "create=True" in caught.value.__notes__[0]
    assert datas(data_dir, "new") == numbers(3)
    assert again.complete


def test_a_dry_run_tells_what_there_is_to_do_and_does_nothing(data_dir: str, tmp_path: Path):
    make_store(data_dir)
    pq.write_table(pa.table({"n": range(100)}), tmp_path / "a.parquet", row_group_size=10)
    path = str(tmp_path / "a.parquet")

    planned = import_files(data_dir, "t", path, dry_run=True, part_bytes=500)
    done = import_files(data_dir, "t", path, part_bytes=500)

    assert planned.dry_run
    assert (planned.rows, planned.parts, planned.files) == (100, done.parts, 1)
    assert done.rows == 100
    assert done.parts > 1
    assert (planned.id, planned.bytes) == (done.id, done.bytes)


def test_a_dry_run_of_lines_does_not_know_how_many_rows_there_are(data_dir: str, tmp_path: Path):
    make_store(data_dir)

    planned = import_files(data_dir, "t", write(tmp_path, "a.jsonl", lines(0, 3)), dry_run=True)

    assert planned.rows is None
    assert datas(data_dir) == []


def test_an_open_store_takes_the_rows_and_goes_on_appending(data_dir: str, tmp_path: Path):
    path = write(tmp_path, "rows.jsonl", lines(0, 50))
    with strandline.open(data_dir) as store:
        topic = store.topic("t")
        topic.append(b"before")

        import_files(store, "t", path, part_bytes=100)
        topic.append(b"behind")

    assert datas(data_dir) == [b"before", *numbers(50), b"behind"]


def test_a_part_that_is_refused_leaves_nothing_staged(data_dir: str, tmp_path: Path):
    path = write(tmp_path, "rows.jsonl", lines(0, 5) + '{"text":"rather long"}\n')
    strict = Settings(limits=LimitSettings(record_bytes_max=10))
    with strandline.open(data_dir, settings=strict) as store:
        store.topic("t")

        with pytest.raises(TooLarge, match="record_bytes_max"):
            import_files(store, "t", path, part_bytes=40)

    assert datas(data_dir) == numbers(5)
    assert staged(data_dir) == []


def test_two_runs_of_one_import_at_a_time_append_once(data_dir: str, tmp_path: Path):
    path = write(tmp_path, "rows.jsonl", lines(0, 200))
    failures: list[BaseException] = []

    def run() -> None:
        try:
            import_files(data_dir, "t", path, part_bytes=200)
        except BaseException as error:  # noqa: BLE001 - told below
            failures.append(error)

    with strandline.open(data_dir) as store:
        store.topic("t")
        threads = [threading.Thread(target=run) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert failures == []
    assert datas(data_dir) == numbers(200)
    assert staged(data_dir) == []


def test_folders_with_values_in_their_names_are_columns(data_dir: str, tmp_path: Path):
    make_store(data_dir)
    write(tmp_path, "in/tag=eu/day=2026-11-16/a.csv", "n\n1\n")
    write(tmp_path, "in/tag=__HIVE_DEFAULT_PARTITION__/day=2026-11-17/a.jsonl", '{"n":2}\n')

    import_files(data_dir, "t", str(tmp_path / "in"), fields=Fields(tag="tag"))

    assert records(data_dir) == [
        (None, None, None, None, b'{"n":2,"tag":null,"day":"2026-11-17"}'),
        (None, "eu", None, None, b'{"n":1,"tag":"eu","day":"2026-11-16"}'),
    ]


def test_progress_is_told_part_by_part(data_dir: str, tmp_path: Path):
    make_store(data_dir)
    told: list[tuple[str, int, int]] = []

    import_files(
        data_dir,
        "t",
        write(tmp_path, "a.jsonl", lines(0, 30)),
        part_bytes=100,
        progress=lambda *step: told.append(step),
    )

    assert told == [("import", part, len(told)) for part in range(1, len(told) + 1)]
    assert len(told) > 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "orc"}, "format is auto, parquet"),
        ({"on_bad": "ignore"}, "on_bad is fail or skip"),
        ({"id": "a/b"}, "no /"),
        ({"part_bytes": 0}, "part_bytes is 1 or more"),
        ({"fields": Fields(tag="a", tag_value="b")}, "a column or one value"),
    ],
)
def test_what_cannot_be_is_refused(data_dir: str, tmp_path: Path, options: dict, message: str):
    make_store(data_dir)

    with pytest.raises(Invalid, match=message):
        import_files(data_dir, "t", write(tmp_path, "a.jsonl", lines(0, 1)), **options)


def test_a_file_without_a_known_ending_needs_a_format(data_dir: str, tmp_path: Path):
    make_store(data_dir)
    path = write(tmp_path, "rows.txt", lines(0, 2))

    with pytest.raises(Invalid, match="is not known from its name"):
        import_files(data_dir, "t", path)
    import_files(data_dir, "t", path, format="jsonl")

    assert datas(data_dir) == numbers(2)


def test_a_part_with_many_rows_is_several_files_of_one_delivery(
    data_dir: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    make_store(data_dir)
    path = write(tmp_path, "a.jsonl", lines(0, 10))
    monkeypatch.setattr(staged_files, "CHUNK_ROWS", 2)
    monkeypatch.setattr(staged_files, "FILE_BYTES", 1)

    summary = import_files(data_dir, "t", path)

    assert (summary.parts, summary.rows) == (1, 10)
    assert datas(data_dir) == numbers(10)
    assert staged(data_dir) == []
