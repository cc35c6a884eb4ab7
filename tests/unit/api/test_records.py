"""Records on the wire: what is told as JSON, what as base64, and what of a record is told."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from strandline.api.records import (
    MetaLimits,
    ReadRecord,
    RecordFields,
    WriteRecord,
    as_json,
    encode_record,
    from_base64,
    meta_of,
    to_base64,
)
from strandline.errors import Invalid, TooLarge
from strandline.records import Record


@pytest.mark.parametrize("data", [b"1", b'"a"', b'{"a" : 1}', b"null", b"[]", '"é"'.encode()])
def test_json_text_is_a_value(data):
    found = as_json(data)

    assert found is not None
    assert bytes(found) == data


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b" 1",
        b"1\n",
        b"\t{}",
        b"{} ",
        b"nul",
        b"1 2",
        b"[1,]",
        b"NaN",
        b"'a'",
        b'"\xff"',
        b'"\xed\xa0\x80"',
        b'"\\ud800"',
        b'"a\nb"',
        b"[" * 100_000,
        b"\x00",
    ],
    ids=lambda data: repr(data[:10]),
)
def test_other_bytes_are_none(data):
    assert as_json(data) is None


@given(st.binary(max_size=12))
def test_every_record_can_be_told_and_heard_again(data):
    record = Record(seq=1, ts=1_000_123, data=data, key=data, meta=data)

    heard = json.loads(encode_record(record, RecordFields(micros=True)))

    for name, twin in (("data", "data_base64"), ("meta", "meta_base64")):
        assert (name in heard) != (twin in heard)
        if twin in heard:
            assert from_base64(heard[twin], twin) == data
        else:
            assert heard[name] == json.loads(data)
    key = heard.get("$key")
    assert (key.encode() if key is not None else from_base64(heard["$key_base64"], "")) == data
    assert (heard["$ts"], heard["$us"]) == (1000, 1_000_123)


def test_only_what_is_asked_for_is_told():
    record = Record(seq=7, ts=5000, data=b"1", tag="t", node="n", meta=b"{}")

    bare = json.loads(encode_record(record, RecordFields(tags=False, meta=False, data=False)))
    full = json.loads(encode_record(record, RecordFields(tags=True, meta=True, data=True)))

    assert bare == {"$seq": 7, "$ts": 5, "$node": "n"}
    assert full == {"$seq": 7, "$ts": 5, "$node": "n", "$tag": "t", "data": 1, "meta": {}}


def test_the_document_names_fields_as_they_are_told():
    assert ReadRecord.__struct_encode_fields__[:4] == ("$seq", "$ts", "$us", "$key")


def test_text_is_told_as_json_text():
    heard = encode_record(
        Record(seq=1, ts=0, data=b"1", tag='a"\n\\', node="é"), RecordFields(tags=True)
    )

    assert json.loads(heard)["$tag"] == 'a"\n\\'
    assert json.loads(heard)["$node"] == "é"


@pytest.mark.parametrize("text", ["A", "A===", "!!!!", "AA==\n", "é"])
def test_what_is_no_base64_is_refused(text):
    with pytest.raises(Invalid, match="x is not base64"):
        from_base64(text, "x")


@pytest.mark.parametrize(
    ("meta", "error"),
    [(b"[1]", Invalid), (b'{"a":1,"b":2,"c":3}', TooLarge), (b'{"a":"xxxxxxxxxxxxxxx"}', TooLarge)],
)
def test_a_meta_has_its_limits(meta, error):
    with pytest.raises(error):
        meta_of(WriteRecord(meta=Raw(meta)), MetaLimits(size_max=20, keys_max=2), depth_max=5)


def test_a_meta_in_base64_has_the_same_size():
    record = WriteRecord(meta_base64=to_base64(b"x" * 21))

    with pytest.raises(TooLarge):
        meta_of(record, MetaLimits(size_max=20, keys_max=2), depth_max=5)
