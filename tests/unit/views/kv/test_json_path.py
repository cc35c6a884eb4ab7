"""Promise: a path names one place of a document; one that cannot be read is refused."""

from __future__ import annotations

import pytest

from strandline.errors import Invalid, NotFound
from strandline.views.kv import json_path

DOCUMENT = {"a": {"b-c": [10, {"d": None}]}, "odd name.": 1, 'quo"te': 2, "0": 3}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("$", DOCUMENT),
        ("$.a", DOCUMENT["a"]),
        ("$.a.b-c[0]", 10),
        ("$.a.b-c[-1].d", None),
        ('$["odd name."]', 1),
        ('$["quo\\"te"]', 2),
        ("$.0", 3),
        ('$["a"]["b-c"][1]', {"d": None}),
    ],
)
def test_a_place_is_found(path, expected):
    assert json_path.value_at(DOCUMENT, path, "absent") == expected


@pytest.mark.parametrize(
    "path", ["$.x", "$.a.x", "$.a[0]", "$.a.b-c[2]", "$.a.b-c[-3]", "$.a.b-c.d", "$.a.b-c[0].x"]
)
def test_a_place_that_is_not_there_gives_the_default(path):
    assert json_path.value_at(DOCUMENT, path, "absent") == "absent"


@pytest.mark.parametrize(
    "path",
    ["", "a", ".a", "$a", "$.", "$..a", "$[", "$[]", "$[a]", "$['a']", "$.a b", '$["\\q"]', 5],
)
def test_what_is_no_path_is_refused(path):
    with pytest.raises(Invalid, match="JSON path"):
        json_path.value_at({}, path, None)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("$", 9),
        ("$.a", {"a": 9, "l": [1, 2]}),
        ("$.new", {"a": {}, "l": [1, 2], "new": 9}),
        ("$.a.new", {"a": {"new": 9}, "l": [1, 2]}),
        ("$.l[0]", {"a": {}, "l": [9, 2]}),
        ("$.l[-1]", {"a": {}, "l": [1, 9]}),
        ("$.l[2]", {"a": {}, "l": [1, 2, 9]}),
    ],
)
def test_a_place_is_set(path, expected):
    assert json_path.set_value({"a": {}, "l": [1, 2]}, path, 9) == expected


@pytest.mark.parametrize("path", ["$.x.y", "$.l[3]", "$.l[-3]", "$.l.x", "$.a[0]", "$.a.x.y"])
def test_a_place_without_a_parent_is_not_set(path):
    with pytest.raises(NotFound, match="parent"):
        json_path.set_value({"a": {}, "l": [1, 2]}, path, 9)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("$.a", {"l": [1, 2]}),
        ("$.l[0]", {"a": {}, "l": [2]}),
        ("$.l[-1]", {"a": {}, "l": [1]}),
        ("$.x", None),
        ("$.l[5]", None),
    ],
)
def test_a_place_is_taken_out_when_it_is_there(path, expected):
    document = {"a": {}, "l": [1, 2]}

    assert json_path.remove_value(document, path) == (expected is not None)

    assert document == (expected or {"a": {}, "l": [1, 2]})


def test_the_whole_document_is_not_taken_out():
    with pytest.raises(Invalid, match="delete the key"):
        json_path.remove_value({}, "$")
