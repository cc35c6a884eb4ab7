"""Log lines of the server, for people (``text``) or machines (``json``).

    2026-11-16T23:40:43.123Z error    internal error in a request    path=/v0/topics/a

Logs are read in terminals and split at line ends, and contain data of clients. So control
characters are escaped, in names, values and tracebacks, and no line is longer than ``LINE_MAX``.
Secrets of tokens are removed everywhere, and so are values whose names mark them as secret.
Messages that libraries log with the standard module are written in the same way.
"""

from __future__ import annotations

import contextlib
import logging
import re
import sys
from collections.abc import Callable, MutableMapping
from datetime import UTC, datetime
from typing import Any, TextIO, cast

import msgspec
import structlog

from strandline.errors import Invalid
from strandline.platform.clock import Clock
from strandline.security.tokens import redact

LINE_MAX = 16_384
FORMATS = ("text", "json")

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_SECRET = re.compile(r"authorization|password|secret|token|ticket|cookie|api_?key", re.IGNORECASE)
_NOT_SECRET = frozenset({"token_id"})
_Event = MutableMapping[str, Any]


def configure(log_format: str, clock: Clock, stream: TextIO | None = None) -> None:
    """Log everything in this process in this format, to standard error by default."""
    if log_format not in FORMATS:
        raise Invalid(f"log_format is {log_format!r}: use {' or '.join(FORMATS)}")
    processors: list[Callable[[Any, str, _Event], Any]] = [
        structlog.stdlib.add_log_level,
        _stamper(clock),
        structlog.processors.format_exc_info,
        cleaned,
        line_of_json if log_format == "json" else line_of_text,
    ]
    structlog.configure(
        processors=processors,
        logger_factory=structlog.PrintLoggerFactory(cast("TextIO", _Sink(stream))),
        cache_logger_on_first_use=False,
    )
    handler = _Handler()
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)


def cleaned(_logger: object, _method: str, event: _Event) -> _Event:
    """The event without secrets."""
    return {name: _plain(name, value) for name, value in event.items()}


def line_of_text(_logger: object, _method: str, event: _Event) -> str:
    """The event as a line for people."""
    event = dict(event)
    stamp, level = event.pop("at", ""), event.pop("level", "info")
    message = _escaped(str(event.pop("event", "")))
    fields = " ".join(f"{_escaped(name)}={_shown(value)}" for name, value in event.items())
    return _cut(f"{stamp} {level:<8} {message}{'    ' if fields else ''}{fields}")


def line_of_json(_logger: object, _method: str, event: _Event) -> str:
    """The event as a line for machines."""
    text = msgspec.json.encode(event, enc_hook=str).decode()
    if len(text) > LINE_MAX:
        cut_event = {name: _cut(str(value), LINE_MAX // 8) for name, value in event.items()}
        text = msgspec.json.encode(cut_event).decode()
    return _CONTROL.sub(_escape, text)


class _Sink:
    """Writes lines. A line that cannot be written is lost: logging must not fail its caller."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError, ValueError):  # closed, or not read
            (self._stream or sys.stderr).write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            (self._stream or sys.stderr).flush()


class _Handler(logging.Handler):
    """Forwards log records of libraries. Safe from many threads."""

    def emit(self, record: logging.LogRecord) -> None:
        logger = structlog.get_logger(record.name)
        level = "error" if record.levelno >= logging.ERROR else "warning"
        try:
            getattr(logger, level)(record.getMessage(), exc_info=record.exc_info or None)
        except Exception:  # noqa: BLE001 - logging must not fail its caller
            self.handleError(record)


def _stamper(clock: Clock) -> Callable[[Any, str, _Event], _Event]:
    def stamp(_logger: object, _method: str, event: _Event) -> _Event:
        moment = datetime.fromtimestamp(clock.now_us() / 1_000_000, UTC)
        event["at"] = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return event

    return stamp


def _plain(name: str, value: object) -> object:
    if _SECRET.search(name) and name not in _NOT_SECRET:
        return "***"
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return redact(value if isinstance(value, str) else repr(value))


def _shown(value: object) -> str:
    text = _escaped(str(value))
    return f'"{text}"' if " " in text or not text else text


def _escaped(text: str) -> str:
    return _CONTROL.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match.group()):04x}"


def _cut(text: str, size_max: int = LINE_MAX) -> str:
    return text if len(text) <= size_max else text[: size_max - 1] + "…"
