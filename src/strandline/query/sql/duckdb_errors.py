"""What DuckDB complains about, in our words: short, with the place in the text, and what was meant.

Its messages are one line, then advice, then the line of the text. We keep the first, find the place
of the name that it is about by ourselves, and look for the columns that the relations have.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from strandline.errors import Invalid
from strandline.query.language.errors import Mistake, did_you_mean
from strandline.query.sql.relations.relation import Relation
from strandline.query.sql.statement import Named, Statement

_KIND = re.compile(r"^[A-Z][A-Za-z -]* Error: ")
_COLUMN = re.compile(r'Referenced column "(.+?)" not found|does not have a column named "(.+?)"')
_TABLE = re.compile(r'Referenced table "(.+?)" not found')
_FUNCTION = re.compile(r"Function with name (\S+) does not exist")
_MEANT = re.compile(r'Did you mean "(.+?)"\?')
_HANDLE = re.compile(r"__relation_\d+")


def translated(error: Exception, asked: Statement, relations: Mapping[Named, Relation]) -> Invalid:
    """The error to raise in the place of DuckDB's."""
    whole = str(error)
    said = _KIND.sub("", whole).split("\n", maxsplit=1)[0].strip()
    said = _HANDLE.sub("a relation", said)
    if found := _COLUMN.search(whole):
        return _no_column(found[1] or found[2], asked, relations)
    if found := _TABLE.search(whole):
        known = [named.name for named in relations]
        hint = did_you_mean(found[1], known, called="FROM has")
        at = asked.place_of_table(found[1])
        return Mistake(f"there is no {found[1]!r} in FROM", asked.text, at, hint=hint)
    if found := _FUNCTION.search(whole):
        at = asked.place_of("FUNCTION", found[1])
        meant = _MEANT.search(whole)
        hint = f"did you mean {meant[1]!r}?" if meant else ""
        return Mistake(f"there is no function {found[1]!r}", asked.text, at, hint=hint)
    return Mistake(said, asked.text, -1)


def _no_column(name: str, asked: Statement, relations: Mapping[Named, Relation]) -> Mistake:
    columns = {column: None for each in relations.values() for column in each.schema.names}
    hint = did_you_mean(name, list(columns), called="columns are")
    at = asked.place_of("COLUMN_REF", name)
    return Mistake(f"there is no column {name!r}", asked.text, at, hint=hint)
