"""Promise: any bytes give a value or one of our errors; round trips agree.

This replays the corpus, without a fuzzer. ``python -m tests.fuzz`` looks for new inputs.
"""

from __future__ import annotations

import pytest

from tests.fuzz.targets import CORPUS, NAMES, corpus_of, target_of


@pytest.mark.parametrize("name", NAMES)
def test_every_input_of_the_corpus_gives_a_value_or_one_of_our_errors(name):
    check = target_of(name).check

    for data in corpus_of(name):
        check(data)


def test_the_corpus_is_small():
    assert sum(path.stat().st_size for path in CORPUS.rglob("*")) <= 300 * 1024
