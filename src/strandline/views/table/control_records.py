"""Records of a table's topic that are not events but change the table as a whole. Pure.

meta             data
"\0tb" "S"       a schema, as JSON: later events have this version
"\0tb" "D"       a condition, as JSON (condition.py): earlier rows that fulfil it are deleted
"""

from __future__ import annotations

import msgspec

from strandline.errors import Corrupt
from strandline.schema import Schema
from strandline.views.table import condition
from strandline.views.table.condition import Condition
from strandline.views.view import MARKS, ViewAppend

MARK = MARKS["table"]
_SCHEMA, _DELETE = MARK + b"S", MARK + b"D"
_SCHEMAS = msgspec.json.Decoder(Schema)


def schema_draft(schema: Schema) -> ViewAppend:
    """The record that starts a version of the schema."""
    return ViewAppend(0, [msgspec.json.encode(schema)], metas=[_SCHEMA])


def delete_draft(where: Condition) -> ViewAppend:
    """The record that deletes rows."""
    return ViewAppend(0, [condition.encode(where)], metas=[_DELETE])


def change_of(meta: bytes, data: bytes, seq: int, topic: str) -> Schema | Condition:
    """The schema or delete condition of a marked record."""
    try:
        if meta == _SCHEMA:
            return _SCHEMAS.decode(data)
        if meta == _DELETE:
            return condition.decode(data)
    except (msgspec.MsgspecError, ValueError) as error:
        raise Corrupt(f"a table cannot be read: {error}", path=f"{topic} seq {seq}") from error
    raise Corrupt(
        "a table has a change that this version does not support: upgrade",
        path=f"{topic} seq {seq}",
    )
