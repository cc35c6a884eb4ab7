"""Promise: series are found by their tags, chosen by matchers, grouped, counted and forgotten."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.errors import Invalid
from strandline.views.metrics.names import canonical, tags_of
from strandline.views.metrics.storage.series_index import Matcher, SeriesTable

TAGS = st.dictionaries(st.sampled_from("abc"), st.sampled_from(["x", "y", "web-1"]), max_size=3)
SERIES = st.lists(TAGS, max_size=12, unique_by=canonical)


def table(*series: dict[str, str]) -> SeriesTable:
    made = SeriesTable()
    for tags in series:
        made.add(canonical(tags))
    return made


def chosen(made: SeriesTable, *matchers: tuple[str, str, str]) -> list[int]:
    return made.match([Matcher(*each) for each in matchers]).tolist()


HOSTS = ({"host": "web-1"}, {"host": "web-2", "zone": "eu"}, {"host": "db"}, {"zone": "us"}, {})


@pytest.mark.parametrize(
    ("matchers", "expected"),
    [
        ((), [0, 1, 2, 3, 4]),
        ((("host", "=", "db"),), [2]),
        ((("host", "!=", "db"),), [0, 1, 3, 4]),
        ((("host", "=", "nobody"),), []),
        ((("host", "=", ""),), [3, 4]),
        ((("host", "!=", ""),), [0, 1, 2]),
        ((("host", "=~", "web-*"),), [0, 1]),
        ((("host", "=~", "^(web-1|db)$"),), [0, 2]),
        ((("host", "=~", "^$"),), [3, 4]),
        ((("host", "!~", "web"),), [2, 3, 4]),
        ((("host", "=~", "web"), ("zone", "=", "eu")), [1]),
        ((("rack", "=", ""), ("zone", "=", "us")), [3]),
        ((("rack", "=", "r1"),), []),
    ],
)
def test_matchers_choose_series(matchers, expected):
    assert chosen(table(*HOSTS), *matchers) == expected


def test_an_expression_that_cannot_be_is_refused():
    with pytest.raises(Invalid, match=r"'\(' is not a regular expression"):
        chosen(table(*HOSTS), ("host", "=~", "("))


def test_an_expression_takes_no_more_time_than_its_text_is_long():
    made = table({"host": "a" * 900})

    assert chosen(made, ("host", "=~", "(a+)+$")) == [0]
    assert chosen(made, ("host", "=~", "(a+)+b")) == []


@given(
    st.lists(TAGS, max_size=12, unique_by=canonical), st.lists(st.sampled_from("abcd"), unique=True)
)
def test_groups_are_by_what_series_have_for_the_tags(series, by):
    made = table(*series)

    groups, group = made.groups(made.numbers(), by)

    found = [groups[place] for place in group.tolist()]
    assert found == [{tag: tags.get(tag, "") for tag in by} for tags in series]
    assert groups == sorted(groups, key=lambda each: tuple(each[tag] for tag in by))
    assert len({tuple(each.items()) for each in groups}) == len(groups)


@given(SERIES.filter(bool), st.sets(st.integers(0, 11)))
def test_what_is_forgotten_is_gone_and_the_others_keep_their_numbers(series, gone):
    made = table(*series)
    made.record_last_points(made.numbers(), made.numbers() * 10)
    gone = {number for number in gone if number < len(series)}

    left = made.without(np.array(sorted(gone), dtype="<i8"))

    kept = [number for number in range(len(series)) if number not in gone]
    assert left.numbers().tolist() == kept
    assert [tags_of(left.packed(number)) for number in kept] == [series[n] for n in kept]
    assert left.last_at(left.numbers()).tolist() == [10 * number for number in kept]
    assert left.add(b"new\x00one") == len(series)


def test_the_last_point_of_a_series_never_goes_back():
    made = table({"a": "x"}, {"a": "y"})
    made.record_last_points(np.array([0, 1]), np.array([5, 9]))

    made.record_last_points(np.array([1]), np.array([7]))

    assert made.last_at(np.array([0, 1])).tolist() == [5, 9]


def test_values_of_tags_are_counted_among_some_series():
    made = table(*HOSTS)

    assert made.count_values(made.numbers()) == {"host": 3, "zone": 2}
    assert made.count_values(np.array([0, 4])) == {"host": 1}


@given(TAGS)
def test_tags_come_back_from_their_canonical_form(tags):
    assert tags_of(canonical(tags)) == tags
    assert canonical(dict(reversed(tags.items()))) == canonical(tags)


@pytest.mark.parametrize(
    "tags", [{"": "x"}, {"a": ""}, {"a": "b\x00c"}, {"a\n": "b"}, {"a": 5}, {"\ud800": "x"}]
)
def test_tags_that_cannot_be_are_refused(tags):
    with pytest.raises(Invalid, match="cannot be"):
        canonical(tags)
