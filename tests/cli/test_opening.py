"""Promise: a reader that a checkpoint pulled a file away from looks again, and not for ever."""

from __future__ import annotations

import pytest

import strandline
from strandline.cli.open_store import open_to_read, read_with_refresh, retry_missing_file
from strandline.errors import Closed


class Shaky:
    """Finds a file gone so many times, then answers."""

    def __init__(self, failures: int, error: type[Exception] = FileNotFoundError) -> None:
        self.looks = 0
        self._failures = failures
        self._error = error

    def look(self) -> str:
        self.looks += 1
        if self.looks <= self._failures:
            raise self._error("gone")
        return "here"


def test_a_file_that_is_gone_is_looked_for_again():
    shaky = Shaky(failures=2)

    answer = retry_missing_file(shaky.look)

    assert (answer, shaky.looks) == ("here", 3)


def test_a_file_that_stays_gone_is_an_error_in_the_end():
    shaky = Shaky(failures=1000)

    with pytest.raises(FileNotFoundError):
        retry_missing_file(shaky.look)

    assert shaky.looks < 10


@pytest.mark.parametrize("error", [FileNotFoundError, Closed])
def test_a_read_sees_the_store_afresh_before_it_is_repeated(data_dir: str, error: type[Exception]):
    shaky = Shaky(failures=1, error=error)
    with strandline.open(data_dir) as writer, open_to_read(data_dir) as store:
        writer.topic("late")

        answer = read_with_refresh(store, shaky.look)

        assert answer == "here"
        assert store.topics() == ["late"]
