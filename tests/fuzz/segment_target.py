"""Segments: headers, trailers and footers of any bytes are decoded or rejected."""

from __future__ import annotations

import numpy as np

from strandline.log.segments import codec
from tests.fuzz.edits import edited

_SEED, _NUMBER, _OFFSET = 7, 3, 4096
_HEADER = codec.encode_header(
    codec.SegmentHeader(store_id=bytes(range(16)), number=_NUMBER, topic_id=1)
)
_INDEX = codec.SegmentIndex({name: np.arange(3, dtype=kind) for name, kind in codec.COLUMNS})
_FOOTER, _CHECKSUM = codec.encode_footer(_INDEX, {"tag": b"seqs"}, _SEED, _NUMBER, _OFFSET)
_BODY, _TRAILER = _FOOTER[: -codec.TRAILER_SIZE], _FOOTER[-codec.TRAILER_SIZE :]

SEEDS = (b"", _HEADER, _FOOTER, b"\0\x08\0\x02", b"\x20\0\0\0")


def check(data: bytes) -> None:
    for header in (data, edited(_HEADER, data)):
        found = codec.decode_header(header)
        if isinstance(found, codec.SegmentHeader):
            assert header.startswith(codec.encode_header(found))
    codec.decode_trailer(data)
    trailer = codec.decode_trailer(edited(_TRAILER, data))
    assert trailer is None or len(trailer) == 3
    body = edited(_BODY, data)
    index = codec.decode_footer(body, _CHECKSUM, _SEED, _NUMBER)
    assert (index is not None) == (body == _BODY)
    assert codec.decode_footer(data, _CHECKSUM, _SEED, _NUMBER) is None or data == _BODY
