"""Promise (R1): a moment is understood as it is written, or refused with how to write it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from strandline.backup.restore_point import RestorePoint, parse
from strandline.errors import Invalid

AT_US = 1_774_706_700_000_000


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-03-28T14:05:00Z", RestorePoint(at_us=AT_US)),
        ("2026-03-28T14:05:00", RestorePoint(at_us=AT_US)),
        ("2026-03-28 16:05+02:00", RestorePoint(at_us=AT_US)),
        (str(AT_US), RestorePoint(at_us=AT_US)),
        (AT_US, RestorePoint(at_us=AT_US)),
        (datetime(2026, 3, 28, 14, 5, tzinfo=UTC), RestorePoint(at_us=AT_US)),
        (
            datetime(2026, 3, 28, 16, 5, tzinfo=timezone(timedelta(hours=2))),
            RestorePoint(at_us=AT_US),
        ),
        ("0:81920", RestorePoint(lsns={0: 81920})),
        ("0:81920,3:40960", RestorePoint(lsns={0: 81920, 3: 40960})),
        ("orders=1200", RestorePoint(topic="orders", seq=1200)),
        ("a=b=7", RestorePoint(topic="a=b", seq=7)),
    ],
)
def test_a_moment_is_read_as_it_is_written(text, moment):
    assert parse(text) == moment


@pytest.mark.parametrize(
    "text", ["", "yesterday", "orders=", "=3", "orders=0", "0:", "0:1,", "a:1"]
)
def test_what_is_no_moment_is_refused(text):
    with pytest.raises(Invalid, match="is not a restore point"):
        parse(text)


@pytest.mark.parametrize("text", ["2026-03-28T14:05:00.000000Z", "0:81920,3:40960", "orders=1200"])
def test_a_moment_is_shown_as_it_is_written(text):
    assert str(parse(text)) == text
