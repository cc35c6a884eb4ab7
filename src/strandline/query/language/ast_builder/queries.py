"""Builds queries, and the commands that contain one. Pure."""

from __future__ import annotations

from typing import Any, NamedTuple

from lark import Token

from strandline.query.language.ast import (
    DeleteEvents,
    Explain,
    Forget,
    Query,
    Remember,
    ReplayCommand,
    Show,
    Step,
)
from strandline.query.language.ast_builder.clauses import Clause, unique_clauses
from strandline.query.language.ast_builder.tokens import (
    TokenError,
    at_of,
    duration_of,
    whole_number,
)


class QueryDraft(NamedTuple):
    """A query and its place: REMEMBER stores its text."""

    query: Query
    at: int


class RememberDraft(NamedTuple):
    """REMEMBER without the text of the query, which is from ``first`` to before ``next``."""

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


def query(parts: list[Any]) -> QueryDraft:
    word, event, *rest = parts
    clauses = unique_clauses(each for each in rest if isinstance(each, Clause))
    since, since_at = clauses.get("since", (None, -1))
    order_by, descending = clauses.get("order", (None, False))
    offset, offset_at = clauses.get("offset", (None, -1))
    result = Query(
        event=event,
        steps=tuple(each for each in rest if isinstance(each, Step)),
        context=clauses.get("for"),
        since=since,
        since_at=since_at,
        using=clauses.get("using"),
        returning=clauses.get("return"),
        linked_by=clauses.get("linked"),
        where=clauses.get("where"),
        aggregates=clauses.get("aggregates", ()),
        per=clauses.get("per"),
        by=clauses.get("by", ()),
        order_by=order_by,
        descending=descending,
        limit=clauses.get("limit"),
        offset=offset,
        offset_at=offset_at,
    )
    return QueryDraft(result, at_of(word))


def replay(parts: list[Any]) -> ReplayCommand:
    word, event, *clauses = parts
    values = unique_clauses(clauses)
    if "for" not in values:
        raise TokenError(at_of(word), "REPLAY requires a context", "write REPLAY FOR context")
    since, since_at = values.get("since", (None, -1))
    return ReplayCommand(
        context=values["for"],
        event=event,
        since=since,
        since_at=since_at,
        using=values.get("using"),
        returning=values.get("return"),
    )


def explain(parts: list[Any]) -> Explain:
    subject = parts[1]
    return Explain(subject.query if isinstance(subject, QueryDraft) else subject)


def delete(parts: list[Any]) -> DeleteEvents:
    _, event, *clauses = parts
    values = unique_clauses(clauses)
    return DeleteEvents(event=event, context=values.get("for"), where=values.get("where"))


def remember(parts: list[Any]) -> RememberDraft:
    _, subject, word, alias, *keeps = parts
    limits = unique_clauses(keeps)
    command = Remember(
        query=subject.query,
        alias=alias,
        text="",
        rows_max=limits.get("rows"),
        age_max_us=limits.get("age"),
    )
    return RememberDraft(command, subject.at, at_of(word))


def keep(parts: list[Token]) -> Clause:
    word, *span = parts
    if span[-1].type == "ROWS":
        return Clause("rows", at_of(word), whole_number(span[0], "KEEP", least=1))
    return Clause("age", at_of(word), duration_of(span))


def show(parts: list[Any]) -> Show:
    return Show(parts[1])


def show_word(parts: list[Token]) -> Show:
    """SHOW of a materialized query with the alias ``permissions``."""
    return Show(parts[1].value)


def forget(parts: list[Any]) -> Forget:
    return Forget(parts[1])


RULES = (step, query, replay, explain, delete, remember, keep, show, show_word, forget)
