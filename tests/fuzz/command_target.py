"""The command language: any text is a command or a ``QueryError`` inside the text."""

from __future__ import annotations

from strandline.errors import StrandlineError
from strandline.query.language.errors import QueryError
from strandline.query.language.parser import parse

SEEDS = (
    b'STORE pay FOR "u1" {"amount": 5}',
    b"DEFINE pay AS { amount: NUMBER, at: DATETIME }",
    b"QUERY pay WHERE amount > 5 AND at BETWEEN 1 AND 2 COUNT PER day BY country",
    b"QUERY pay FOLLOWED BY ship LINKED BY user WHERE pay.amount = 'x'",
    b"REMEMBER QUERY pay COUNT AS total",
    b"BATCH [ PING; SHOW total ]",
    b"REPLAY FOR ctx SINCE '2026-01-01' USING at RETURN [amount]",
    b"GRANT READ, WRITE ON pay TO bob",
)


def check(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    try:
        command = parse(text)
    except StrandlineError as error:
        at = error.at if isinstance(error, QueryError) else -1
    else:
        at = -1
        assert parse(text) == command or "nan" in repr(command)
    assert -1 <= at <= len(text)
