"""Log lines: one each, without secrets, and without anything that a terminal would obey."""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Iterator

import pytest
import structlog

from strandline.errors import Invalid
from strandline.server import logs
from strandline.testing.sim_clock import SimClock

TOKEN = "strand1_abcdefgh2345_" + "A" * 43 + "_abcdef"  # shaped like one


@pytest.fixture
def restored() -> Iterator[None]:
    """What is configured is of the whole process: put it back."""
    root = logging.getLogger()
    before = (root.handlers, root.level)
    yield
    structlog.reset_defaults()
    root.handlers, root.level = before


@pytest.fixture(params=logs.FORMATS)
def lines(request, restored) -> tuple[str, io.StringIO]:
    stream = io.StringIO()
    logs.configure(request.param, SimClock(), stream)
    return request.param, stream


def test_a_line_tells_when_how_bad_and_what(lines):
    kind, stream = lines

    structlog.get_logger().warning("a thing happened", topic="orders", count=3)

    (line,) = stream.getvalue().splitlines()
    if kind == "json":
        told = json.loads(line)
        assert (told["event"], told["level"], told["topic"]) == (
            "a thing happened",
            "warning",
            "orders",
        )
        assert told["count"] == 3
        assert told["at"].endswith("Z")
    else:
        assert " warning  a thing happened    topic=orders count=3" in line


@pytest.mark.parametrize(
    "text", ["a\r\nb", "\x1b[31mred", "a\x00b", "a\u2028b", "a\u202eb", "\x9b1m"]
)
def test_control_characters_are_escaped(lines, text):
    _, stream = lines

    structlog.get_logger().error(f"event {text}", path=f"/v0/{text}")

    told = stream.getvalue()
    assert told.count("\n") == 1
    assert not set(told[:-1]) & set("\r\n\x1b\x00\u2028\u202e\x9b")


def test_the_names_of_fields_are_escaped_too(lines):
    _, stream = lines

    structlog.get_logger().error("event", **{"a\nb": 1})

    assert stream.getvalue().count("\n") == 1


def test_secrets_are_taken_out_wherever_they_stand(lines):
    _, stream = lines

    structlog.get_logger().error(
        f"refused {TOKEN}", authorization="Bearer x", header={"a": TOKEN}, password="hunter2"
    )

    told = stream.getvalue()
    assert "A" * 43 not in told
    assert "hunter2" not in told
    assert "Bearer x" not in told


def test_secrets_are_taken_out_of_tracebacks(lines):
    _, stream = lines

    try:
        raise ValueError(TOKEN)
    except ValueError:
        structlog.get_logger().exception("a bug")

    told = stream.getvalue()
    assert "ValueError" in told
    assert "A" * 43 not in told
    assert told.count("\n") == 1


def test_a_line_has_an_end(lines):
    _, stream = lines

    structlog.get_logger().error("event", body="x" * 1_000_000)

    assert len(stream.getvalue()) <= logs.LINE_MAX + 1


def test_what_libraries_log_comes_the_same_way(lines):
    _, stream = lines

    logging.getLogger("uvicorn.error").error("it\nfailed with %s", TOKEN)
    logging.getLogger("uvicorn.access").info("not wanted")

    told = stream.getvalue()
    assert told.count("\n") == 1
    assert "failed with strand1_" in told
    assert "A" * 43 not in told


def test_another_format_is_refused():
    with pytest.raises(Invalid, match="text or json"):
        logs.configure("xml", SimClock())


def test_a_line_that_nobody_takes_harms_nobody(lines):
    _, stream = lines
    stream.close()

    structlog.get_logger().error("a thing happened")
    logging.getLogger("library").warning("another")


def test_standard_error_is_looked_up_for_every_line(restored, monkeypatch):
    """A process may put another in its place after the server has begun."""
    logs.configure("text", SimClock())
    later = io.StringIO()
    monkeypatch.setattr(sys, "stderr", later)

    structlog.get_logger().error("a thing happened")

    assert "a thing happened" in later.getvalue()
