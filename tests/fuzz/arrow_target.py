"""Arrow bodies of appends: any bytes are a batch or one of our errors."""

from __future__ import annotations

import contextlib

import pyarrow as pa

from strandline.config.settings import LimitSettings
from strandline.errors import StrandlineError
from strandline.log.append.batch import of_arrow
from strandline.server.http.arrow_streams import ipc_of, table_of
from tests.fuzz.edits import edited

_LIMITS = LimitSettings(record_bytes_max=1 << 16, batch_bytes_max=1 << 20)
_WHOLE = ipc_of(
    pa.table(
        {
            "data": pa.array([b"x", b"yy", b""], pa.binary()),
            "tag": pa.array(["a", None, "b"], pa.string()),
            "meta": pa.array([None, b"m", b""], pa.large_binary()),
        }
    )
)

SEEDS = (b"\x01" + _WHOLE, b"\0\0", b"\0\0\x30\0\x02", b"\0\x10\x80\0\xff")


def check(data: bytes) -> None:
    body = data[1:] if data[:1] == b"\x01" else edited(_WHOLE, data[1:])
    with contextlib.suppress(StrandlineError):
        table = table_of(body)
        batch = of_arrow(table, None, _LIMITS)
        assert batch.count == table.num_rows
