"""Promise: a mistake shows its line and a mark below the place, and survives being sent."""

from __future__ import annotations

import pickle

import pytest

from strandline.errors import Invalid
from strandline.query.language.errors import QueryError, did_you_mean, join_words, nearest_word


def shown_and_marked(error: QueryError) -> str:
    """The character above the mark."""
    _, line, mark, *_ = str(error).split("\n")
    return line[mark.index("^")]


def test_a_mistake_tells_line_column_and_shows_the_place():
    error = QueryError("pay has no field 'amuont'", "QUERY pay\nWHERE amuont > 5", 16, hint="think")

    assert (error.line, error.column) == (2, 7)
    assert str(error) == (
        "line 2, column 7: pay has no field 'amuont'\n  WHERE amuont > 5\n        ^\n  think"
    )
    assert isinstance(error, Invalid)


def test_a_mistake_at_the_end_points_behind_the_text():
    error = QueryError("expected an event", "QUERY", 5)

    assert str(error).endswith("  QUERY\n       ^")


def test_a_mistake_without_a_place_is_one_line():
    assert str(QueryError("no", "QUERY a", -1, hint="yes")) == "no; yes"
    assert str(QueryError("no", "QUERY a", -1)) == "no"


@pytest.mark.parametrize("before", [0, 10, 59, 60, 61, 500, 100_000])
def test_the_mark_stays_below_its_place_in_long_lines(before):
    text = "a" * before + "X" + "b" * 500

    error = QueryError("here", text, before)

    assert shown_and_marked(error) == "X"
    assert max(map(len, str(error).split("\n"))) < 120


@pytest.mark.parametrize("before", ["\t\t", "\x1b[31m", "é", "\r"])
def test_characters_that_move_the_cursor_are_not_shown(before):
    error = QueryError("here", f"{before}X", len(before))

    assert shown_and_marked(error) == "X"
    assert "\x1b" not in str(error)
    assert "\t" not in str(error)


def test_a_mistake_can_be_sent_to_another_process():
    error = QueryError("no", "QUERY a", 6, hint="yes")

    found = pickle.loads(pickle.dumps(error))

    assert (str(found), found.at, found.hint) == (str(error), 6, "yes")


def test_a_near_word_is_found_whatever_its_letters():
    assert nearest_word("AMUONT", ["cur", "amount"]) == "amount"
    assert nearest_word("eur", ["EUR", "USD"]) == "EUR"
    assert nearest_word("zzz", ["EUR", "USD"]) == ""


def test_a_hint_lists_what_there_is_when_nothing_is_near():
    assert did_you_mean("amuont", ["amount"]) == "did you mean 'amount'?"
    assert did_you_mean("zzz", ["a", "b"], called="there are") == "there are: a and b"
    assert did_you_mean("zzz", ["a", "b"]) == ""
    assert did_you_mean("zzz", [], called="there are") == ""


def test_words_are_listed_as_people_do_and_not_without_end():
    assert join_words(["a"]) == "a"
    assert join_words(["a", "b", "c"]) == "a, b or c"
    assert join_words(list("abcd"), "and", count_max=2) == "a, b and 2 more"
