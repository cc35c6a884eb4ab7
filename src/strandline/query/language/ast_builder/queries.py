"""Questions and what is done with them, as values. Pure."""

from __future__ import annotations

from typing import Any, NamedTuple

from lark import Token

from strandline.query.language.ast import (
    DeleteEvents,
    Explain,
    Forget,
    Query,
    Remember,
    Replay,
    Show,
    Step,
)
from strandline.query.language.ast_builder.clauses import Clause, once
from strandline.query.language.ast_builder.tokens import Misplaced, at_of, duration_of, whole


class Asked(NamedTuple):
    """A query, and where it begins: REMEMBER keeps its text."""

    query: Query
    at: int


class ToRemember(NamedTuple):
    """REMEMBER, but for the query's text: from ``first`` on and before ``next``."""

    command: Remember
    first: int
    next: int


def step(parts: list[Any]) -> Step:
    word, _, event, *within = parts
    duration = [token for token in within[1:] if token is not None]
    return Step(
        direction="followed" if word.type == "FOLLOWED" else "preceded",
        event=event,
        within_us=duration_of(duration) if duration else None,
    )


def query(parts: list[Any]) -> Asked:
    word, event, *rest = parts
    found = once(each for each in rest if isinstance(each, Clause))
    since, since_at = found.get("since", (None, -1))
    order_by, descending = found.get("order", (None, False))
    offset, offset_at = found.get("offset", (None, -1))
    asked = Query(
        event=event,
        steps=tuple(each for each in rest if isinstance(each, Step)),
        context=found.get("for"),
        since=since,
        since_at=since_at,
        using=found.get("using"),
        returning=found.get("return"),
        linked_by=found.get("linked"),
        where=found.get("where"),
        aggregates=found.get("aggregates", ()),
        per=found.get("per"),
        by=found.get("by", ()),
        order_by=order_by,
        descending=descending,
        limit=found.get("limit"),
        offset=offset,
        offset_at=offset_at,
    )
    return Asked(asked, at_of(word))


def replay(parts: list[Any]) -> Replay:
    word, event, *clauses = parts
    found = once(clauses)
    if "for" not in found:
        raise Misplaced(at_of(word), "REPLAY needs a context", "write REPLAY FOR context")
    since, since_at = found.get("since", (None, -1))
    return Replay(
        context=found["for"],
        event=event,
        since=since,
        since_at=since_at,
        using=found.get("using"),
        returning=found.get("return"),
    )


def explain(parts: list[Any]) -> Explain:
    asked = parts[1]
    return Explain(asked.query if isinstance(asked, Asked) else asked)


def delete(parts: list[Any]) -> DeleteEvents:
    _, event, *clauses = parts
    found = once(clauses)
    return DeleteEvents(event=event, context=found.get("for"), where=found.get("where"))


def remember(parts: list[Any]) -> ToRemember:
    _, asked, word, alias, *keeps = parts
    kept = once(keeps)
    command = Remember(
        query=asked.query,
        alias=alias,
        text="",
        rows_max=kept.get("rows"),
        age_max_us=kept.get("age"),
    )
    return ToRemember(command, asked.at, at_of(word))


def keep(parts: list[Token]) -> Clause:
    word, *span = parts
    if span[-1].type == "ROWS":
        return Clause("rows", at_of(word), whole(span[0], "KEEP", least=1))
    return Clause("age", at_of(word), duration_of(span))


def show(parts: list[Any]) -> Show:
    return Show(parts[1])


def show_word(parts: list[Token]) -> Show:
    """Something that is remembered as ``permissions``."""
    return Show(parts[1].value)


def forget(parts: list[Any]) -> Forget:
    return Forget(parts[1])


RULES = (step, query, replay, explain, delete, remember, keep, show, show_word, forget)
