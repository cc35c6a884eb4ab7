"""Promise: a question that comes again is not parsed again; of other commands nothing is kept."""

from __future__ import annotations

import pytest

from strandline.query.language.parser import parse


def test_a_question_that_comes_again_is_known():
    text = "QUERY pay WHERE amount > 5 COUNT"

    assert parse(text) is parse(text)
    assert parse(text) != parse(text.replace("5", "6"))


@pytest.mark.parametrize(
    "text",
    [
        'CREATE USER ada WITH KEY "secret"',
        'STORE pay FOR ada PAYLOAD {"n": 1}',
        "DELETE pay FOR ada",
    ],
)
def test_what_may_hold_a_key_or_data_is_not_kept(text):
    assert parse(text) is not parse(text)
    assert parse(text) == parse(text)
