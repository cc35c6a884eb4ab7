"""The two dialects of SQL that plans are compiled to: DuckDB and Spark. Pure.

SQL is built as trees of sqlglot, never from pasted text: a name is always quoted, a value always a
literal with a type. Where the dialects differ:

    kind      DuckDB       Spark
    u64       UBIGINT      DECIMAL(20, 0)
    datetime  TIMESTAMP    TIMESTAMP         no zone in DuckDB: UTC; Spark's session must be UTC

In both, text is compared by its bytes in UTF-8, which is the order of code points.
"""

from __future__ import annotations

import sys
from datetime import date, datetime, timedelta
from typing import Literal

from sqlglot import exp

from strandline.schema import FieldType, FieldTypeName
from strandline.views.table.condition import Value

Dialect = Literal["duckdb", "spark"]

TOTAL_DIGITS = 38
"""Digits of a total of whole numbers: enough for 10^18 times 2^64 - 1."""

SCALE = 2.0**64
"""Values divided by it can be added without an overflow, for any number of rows."""
DOUBLE_MAX = sys.float_info.max

_EPOCH = datetime(1970, 1, 1)
_EPOCH_DAY = date(1970, 1, 1)
_TYPES: dict[FieldTypeName, exp.DType] = {
    "string": exp.DType.VARCHAR,
    "enum": exp.DType.VARCHAR,
    "i64": exp.DType.BIGINT,
    "f64": exp.DType.DOUBLE,
    "bool": exp.DType.BOOLEAN,
    "datetime": exp.DType.TIMESTAMP,
    "date": exp.DType.DATE,
}


def name(text: str) -> exp.Identifier:
    return exp.to_identifier(text, quoted=True)


def column(text: str, table: str | None = None) -> exp.Column:
    return exp.Column(this=name(text), table=name(table) if table else None)


def call(function: str, *arguments: exp.Expression) -> exp.Anonymous:
    """A call of a function by its name."""
    return exp.Anonymous(this=function, expressions=list(arguments))


def number(value: int) -> exp.Expression:
    """A whole number of 64 bits."""
    return exp.cast(exp.Literal.string(str(value)), exp.DataType(this=exp.DType.BIGINT))


def double(value: float) -> exp.Expression:
    return exp.cast(exp.Literal.string(repr(value)), exp.DataType(this=exp.DType.DOUBLE))


def decimal(digits: int) -> exp.DataType:
    sizes = [exp.DataTypeParam(this=exp.Literal.number(each)) for each in (digits, 0)]
    return exp.DataType(this=exp.DType.DECIMAL, expressions=sizes)


def type_of(kind: FieldType, dialect: Dialect) -> exp.DataType:
    if kind.name == "u64":
        return exp.DataType(this=exp.DType.UBIGINT) if dialect == "duckdb" else decimal(20)
    return exp.DataType(this=_TYPES[kind.name])


def literal(value: Value, kind: FieldType, dialect: Dialect) -> exp.Expression:
    """A bound value as one of its column's type."""
    if isinstance(value, bool):
        return exp.true() if value else exp.false()
    if kind.name in ("string", "enum"):
        assert isinstance(value, str)
        return exp.Literal.string(value)
    return exp.cast(exp.Literal.string(_text(value, kind)), type_of(kind, dialect))


def _text(value: Value, kind: FieldType) -> str:
    if kind.name == "datetime":
        assert isinstance(value, int)
        return (_EPOCH + timedelta(microseconds=value)).isoformat(" ")
    if kind.name == "date":
        assert isinstance(value, int)
        return (_EPOCH_DAY + timedelta(days=value)).isoformat()
    return repr(value)
