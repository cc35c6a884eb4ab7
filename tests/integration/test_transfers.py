"""Promise: imports read from a real object store, and exports write to one."""

from __future__ import annotations

from pathlib import Path

import pytest

from strandline.pipelines import Fields, export, import_files
from strandline.platform import input_files
from strandline.platform.input_files import find_sources
from tests.integration.conftest import Remote
from tests.unit.pipelines.transfers import datas, make_store, write


@pytest.fixture
def bucket(remote: Remote, monkeypatch: pytest.MonkeyPatch) -> str:
    """The url of a bucket whose credentials are in the environment."""
    service = remote.service
    if service.scheme != "s3":
        pytest.skip("credentials in the environment are tried with S3")
    options = service.options_at(service.port)
    names = {"endpoint": "AWS_ENDPOINT_URL", "region": "AWS_REGION"}
    for name, value in options.items():
        monkeypatch.setenv(names.get(name, f"AWS_{name.upper()}"), value)
    input_files._objects.cache_clear()
    return f"s3://{remote.bucket}"


def test_what_is_exported_to_a_bucket_is_imported_from_it(bucket: str, tmp_path: Path):
    data_dir = make_store(str(tmp_path / "data"), "t", "back")
    lines = "".join(f'{{"n":{number}}}\n' for number in range(300))
    import_files(data_dir, "t", write(tmp_path, "rows.jsonl", lines))

    export(data_dir, "t", f"{bucket}/some/out", file_rows=100, partition_by="day")
    again = export(data_dir, "t", f"{bucket}/some/out", file_rows=100, partition_by="day")
    fields = Fields(data="data")
    import_files(data_dir, "back", f"{bucket}/some/out", fields=fields, part_bytes=500)

    assert again.complete
    assert datas(data_dir, "back") == datas(data_dir, "t")
    names = [file.url.rpartition("/")[2] for file in find_sources([f"{bucket}/some/*/day=*/*"])]
    assert names == [f"t-{first:020d}-{first + 99:020d}.parquet" for first in (1, 101, 201)]
