"""SQL: any text is one SELECT whose relations are known, or a ``QueryError``."""

from __future__ import annotations

import functools

import duckdb

from strandline.errors import StrandlineError
from strandline.query.sql.sandbox import DuckDbParser
from strandline.query.sql.statement import read

SEEDS = (
    b"SELECT a, count(*) FROM topics.orders o JOIN kv.users u ON o.key = u.key GROUP BY ALL",
    b"WITH t AS (SELECT 1 AS a) SELECT * FROM t UNION ALL VALUES (2)",
    b"FROM queue.jobs SELECT x WHERE y IN (SELECT z FROM series.s)",
    b"SELECT * FROM range(3), unnest([1, 2])",
    b"SELECT * FROM read_csv('x')",
    b"SELECT 1; SELECT 2",
    b"COPY t TO 'x'",
    b"DESCRIBE SELECT 1",
    "SELECT 'ä' FROM \"é\".t".encode(),
)


@functools.cache
def _parser() -> DuckDbParser:
    return DuckDbParser(duckdb.connect(config={"enable_external_access": False}))


def check(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    try:
        statement = read(text, _parser())
    except StrandlineError:
        return
    for relation in statement.relations:
        assert relation.at < len(text)
