"""Decodes responses of a server into the pages that an embedded store returns. Pure."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import pyarrow as pa
from msgspec import UNSET

from strandline.api.arrow_records import PAGE_KEY
from strandline.api.records import ReadRecord
from strandline.api.topics import DiffResponse, PickResponse, TombstoneResponse
from strandline.client.bytes_fields import bytes_of, sure_bytes
from strandline.client.request import ARROW, Response
from strandline.errors import ObjectStoreUnreachable
from strandline.lake.files.record_columns import SCHEMA
from strandline.log.read.page import Page, PageColumns, Row
from strandline.records import Record, Tombstone


class ArrowPage(Page):
    """A page whose records were received as columns. Owned by one thread."""

    __slots__ = ("_table",)

    def __init__(self, table: pa.Table, header: PageHeader) -> None:
        super().__init__(
            [],
            following=header.next_from_seq,
            head_seq=header.head_seq,
            epoch=header.epoch,
            tombstone=_tombstone(header.tombstone),
        )
        self._table = table

    def __len__(self) -> int:
        count: int = self._table.num_rows
        return count

    @property
    def records(self) -> list[Record]:
        if self._records is None:
            self._records = [
                Record(seq=seq, ts=ts, key=key, tag=tag, node=node, meta=meta, data=data)
                for seq, ts, key, tag, node, meta, data in zip(*self.columns(), strict=True)
            ]
        return self._records

    @property
    def data(self) -> list[bytes]:
        payloads: list[bytes] = self._table["data"].to_pylist()
        return payloads

    def columns(self) -> PageColumns:
        table = self._table
        stamps = table["ts"].cast(pa.int64())
        lists = [table["seq"].to_pylist(), stamps.to_pylist()]
        return PageColumns(*lists, *(table[name].to_pylist() for name in SCHEMA.names[2:]))

    def arrow(self) -> pa.Table:
        return self._table


class PageHeader(NamedTuple):
    """The fields of a page besides its records."""

    next_from_seq: int
    head_seq: int
    epoch: int
    tombstone: TombstoneResponse | None = None


class _Metadata(msgspec.Struct):
    next_from_seq: int
    head_seq: int
    epoch: int
    tombstone: TombstoneResponse | None = None


def page_of(reply: Response) -> Page:
    """Decode the response to ``diff``."""
    if reply.media_type == ARROW:
        table = table_of(reply)
        metadata = _metadata(table.schema)
        return ArrowPage(
            table.replace_schema_metadata(None), PageHeader(*msgspec.structs.astuple(metadata))
        )
    response = reply.decode(DiffResponse)
    return Page(
        [[row_of(each) for each in response.records]] if response.records else [],
        following=response.next_from_seq,
        head_seq=response.head_seq,
        epoch=response.epoch,
        tombstone=_tombstone(response.tombstone),
    )


def merged_picks(responses: list[PickResponse]) -> Page:
    """One page of picked records, from one or more responses."""
    newest = responses[-1]
    return Page(
        [[row_of(record) for response in responses for record in response.records]],
        following=newest.head_seq,
        head_seq=newest.head_seq,
        epoch=newest.epoch,
        tombstone=None,
    )


def merged_pages(pages: list[Page]) -> Page:
    """Consecutive pages as one page."""
    first, last = pages[0], pages[-1]
    if len(pages) == 1:
        return first
    gap = None if first.tombstone is None else first.tombstone
    table = pa.concat_tables([page.arrow() for page in pages])
    page = ArrowPage(table, PageHeader(last.next, last.head_seq, last.epoch))
    page.tombstone = gap
    return page


def table_of(reply: Response) -> pa.Table:
    """Decode a response in Arrow."""
    try:
        with pa.ipc.open_stream(reply.content) as stream:
            return stream.read_all()
    except pa.ArrowInvalid as error:
        raise ObjectStoreUnreachable(
            f"this is not a response of a Strandline server: {error}"
        ) from error


def row_of(record: ReadRecord) -> Row:
    """A record as a row of a page."""
    fields = (
        bytes_of(record.key, record.key_base64),
        None if record.tag is UNSET else record.tag.encode(),
        None if record.node is UNSET else record.node.encode(),
        bytes_of(record.meta, record.meta_base64),
    )
    ts = record.ts * 1000 if record.us is UNSET else record.us
    return record.seq, ts, fields, sure_bytes(record.data, record.data_base64)


def _tombstone(tombstone: TombstoneResponse | None) -> Tombstone | None:
    if tombstone is None:
        return None
    return Tombstone(gap_from=tombstone.gap_from, gap_to=tombstone.gap_to, reason=tombstone.reason)


def _metadata(schema: pa.Schema) -> _Metadata:
    encoded = (schema.metadata or {}).get(PAGE_KEY)
    if encoded is None or schema.names != SCHEMA.names:
        raise ObjectStoreUnreachable(
            "this is not a response of a Strandline server: it has other columns"
        )
    return msgspec.json.decode(encoded, type=_Metadata)
