"""Translates errors of DuckDB to query errors: short, with the place in the text and a hint.

Messages of DuckDB are one line, then advice, then the line of the text. The first line is used; the
place is that of the name in the text, and hints are columns of the relations of the query.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from strandline.errors import Invalid
from strandline.query.language.errors import QueryError, did_you_mean
from strandline.query.sql.relations.relation import Relation
from strandline.query.sql.statement import RelationName, Statement

_KIND = re.compile(r"^[A-Z][A-Za-z -]* Error: ")
_COLUMN = re.compile(r'Referenced column "(.+?)" not found|does not have a column named "(.+?)"')
_TABLE = re.compile(r'Referenced table "(.+?)" not found')
_FUNCTION = re.compile(r"Function with name (\S+) does not exist")
_SUGGESTION = re.compile(r'Did you mean "(.+?)"\?')
_HANDLE = re.compile(r"__relation_\d+")


def translate_error(
    error: Exception, query: Statement, relations: Mapping[RelationName, Relation]
) -> Invalid:
    """The error to raise instead of the error of DuckDB."""
    text = str(error)
    message = _KIND.sub("", text).split("\n", maxsplit=1)[0].strip()
    message = _HANDLE.sub("a relation", message)
    if match := _COLUMN.search(text):
        return _unknown_column(match[1] or match[2], query, relations)
    if match := _TABLE.search(text):
        known = [named.name for named in relations]
        hint = did_you_mean(match[1], known, called="relations in FROM are")
        at = query.place_of_table(match[1])
        return QueryError(f"there is no relation {match[1]!r} in FROM", query.text, at, hint=hint)
    if match := _FUNCTION.search(text):
        at = query.place_of("FUNCTION", match[1])
        suggestion = _SUGGESTION.search(text)
        hint = f"did you mean {suggestion[1]!r}?" if suggestion else ""
        return QueryError(f"there is no function {match[1]!r}", query.text, at, hint=hint)
    return QueryError(message, query.text, -1)


def _unknown_column(
    name: str, query: Statement, relations: Mapping[RelationName, Relation]
) -> QueryError:
    columns = {column: None for each in relations.values() for column in each.schema.names}
    hint = did_you_mean(name, list(columns), called="columns are")
    at = query.place_of("COLUMN_REF", name)
    return QueryError(f"there is no column {name!r}", query.text, at, hint=hint)
