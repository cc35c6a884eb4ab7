"""Appends whose bodies are lines or Arrow: the same records, conditions and refusals as JSON."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from strandline.errors import Invalid
from strandline.server.http.arrow_streams import ipc_of, table_of
from tests.server.running import running
from tests.server.topics_face import Face, values

ARROW = "application/vnd.apache.arrow.stream"
NDJSON = "application/x-ndjson"


@pytest.fixture(scope="module")
def face(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Face]:
    with running(tmp_path_factory.mktemp("bodies")) as server, Face(server) as made:
        yield made


def test_a_line_each_is_an_append(face):
    answer = face.client.post(
        "/v0/topics/lines?return_seqs=true",
        content=b'{"data":{"a":1},"tag":"x"}\n{"data":2}\n\n',
        headers={"content-type": NDJSON},
    )

    assert answer.json()["seqs"] == [1, 2]
    assert values(face.diff("lines")) == [{"a": 1}, 2]


def test_a_bad_line_refuses_all_lines(face):
    face.put("bad-lines")
    answer = face.client.post(
        "/v0/topics/bad-lines",
        content=b'{"data":1}\n{"dota":2}\n',
        headers={"content-type": NDJSON},
    )

    assert answer.status_code == 400
    assert face.state("bad-lines")["head_seq"] == 0


def test_an_arrow_stream_is_an_append(face):
    table = pa.table(
        {"data": [b"1", b"\xff"], "tag": ["t", None], "key": [None, b"k"], "node": [None, "own"]}
    )

    answer = face.client.post(
        "/v0/topics/arrow?node=n", content=_stream(table), headers={"content-type": ARROW}
    )
    told = face.diff("arrow", include_tags=True)["records"]

    assert answer.json()["count"] == 2
    assert told[0] | {"$ts": 0} == {"$seq": 1, "$ts": 0, "$node": "n", "$tag": "t", "data": 1}
    assert (told[1]["$node"], told[1]["$key"], told[1]["data_base64"]) == ("own", "k", "/w==")


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_arrow_with_compressed_buffers_is_refused_before_it_is_unpacked(face, codec):
    body = _stream(pa.table({"data": [b"0" * 1_000_000]}), compression=codec)

    answer = face.client.post(
        "/v0/topics/packed-arrow", content=body, headers={"content-type": ARROW}
    )

    assert answer.status_code == 400
    assert "gzip" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "body",
    [b"", b"no arrow", b"\xff\xff\xff\xff\x10\x00\x00\x00", b"\xff" * 64],
    ids=["empty", "text", "cut", "noise"],
)
def test_what_is_no_arrow_stream_is_refused(face, body):
    answer = face.client.post("/v0/topics/no-arrow", content=body, headers={"content-type": ARROW})

    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_request")


def test_a_cut_arrow_stream_appends_nothing(face):
    face.put("cut-arrow")
    whole = _stream(pa.table({"data": [b"x" * 100] * 50}))

    for size in range(0, len(whole) - 8, 97):
        answer = face.client.post(
            "/v0/topics/cut-arrow", content=whole[:size], headers={"content-type": ARROW}
        )
        assert answer.status_code in (400, 200), size
        if answer.status_code == 200:
            assert answer.json()["count"] == 50

    assert face.state("cut-arrow")["count"] % 50 == 0


def test_conditions_of_lines_and_arrow_stand_in_the_query(face):
    face.append("queried", 0)
    line = b'{"data":1}'

    def post(query: str) -> int:
        answer = face.client.post(
            f"/v0/topics/queried?{query}", content=line, headers={"content-type": NDJSON}
        )
        return answer.status_code

    assert post("expected_head_seq=5") == 409
    assert post("expected_head_seq=1&idempotency_key=k") == 200
    assert post("idempotency_key=k") == 200
    assert face.state("queried")["head_seq"] == 2


def _stream(table: pa.Table, compression: str | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, table.schema, options=options) as stream:
        stream.write_table(table)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("kind", ["application/json", NDJSON, ARROW])
def test_whatever_the_body_an_append_at_another_head_leaves_nothing(face, kind):
    topic = f"headed-{kind.partition('/')[2].partition('.')[0]}"
    face.append(topic, 1)
    table = pa.table({"data": [b"2"]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    bodies = {
        "application/json": b'{"records":[{"data":2}]}',
        NDJSON: b'{"data":2}\n',
        ARROW: sink.getvalue().to_pybytes(),
    }
    statuses = [
        face.client.post(
            f"/v0/topics/{topic}?expected_head_seq={head}",
            content=bodies[kind],
            headers={"content-type": kind},
        ).status_code
        for head in (0, 2, 1, 1)
    ]

    assert statuses == [409, 409, 200, 409]
    assert values(face.diff(topic)) == [1, 2]


def test_a_column_whose_name_is_not_utf_8_is_refused():
    whole = ipc_of(pa.table({"data": pa.array([b"x"], pa.binary())}))

    with pytest.raises(Invalid, match="Arrow IPC stream"):
        table_of(whole.replace(b"data", b"\xd5ata"))
