"""The input of a command: its arguments, the lines of stdin, or all of stdin.

Lines are read in batches. A batch also ends when no more input is waiting, so that the lines of a
slow producer are stored as they arrive.
"""

from __future__ import annotations

import contextlib
import os
import select
import stat
import sys
from collections.abc import Iterator

from strandline.cli.output.progress import Bar
from strandline.config.settings import LimitSettings
from strandline.errors import Invalid, TooLarge

_CHUNK_SIZE = 1 << 20
_BATCH = 1000
_BATCH_SIZE = 16 << 20
_LIMITS = LimitSettings()


def value_of(argument: str | None, what: str) -> bytes:
    """One value: the argument, or all of a piped stdin."""
    if argument is not None:
        return os.fsencode(argument)
    if sys.stdin.isatty():
        raise Invalid(f"there is no {what}: give it as an argument, or pipe it to stdin")
    value = bytearray()
    while chunk := os.read(sys.stdin.fileno(), _CHUNK_SIZE):
        value += chunk
        if len(value) > _LIMITS.record_bytes_max:
            raise TooLarge(f"stdin has more than {_LIMITS.record_bytes_max} bytes")
    return bytes(value)


@contextlib.contextmanager
def open_input(path: str) -> Iterator[int]:
    """The descriptor of a file to read from."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError as error:
        raise Invalid(f"cannot read {path}: {error.strerror}") from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def batches_of(
    data: tuple[str, ...],
    batch: int | None,
    *,
    stdin: bool,
    once: bool,
    descriptor: int | None = None,
) -> Iterator[list[bytes]]:
    """The records in batches; missing input is rejected before the store is opened."""
    if data and stdin:
        raise Invalid("records come from the command line or from --stdin, not from both")
    if data:
        records = [os.fsencode(text) for text in data]
        step = batch or len(records)
        return iter([records[first : first + step] for first in range(0, len(records), step)])
    if descriptor is None and not stdin and sys.stdin.isatty():
        raise Invalid("nothing to append: give records as arguments, or pipe lines to stdin")
    source = sys.stdin.fileno() if descriptor is None else descriptor
    lines = lines_of(source, batch or _BATCH)
    return _all_at_once(lines) if once else lines


def _all_at_once(batches: Iterator[list[bytes]]) -> Iterator[list[bytes]]:
    records: list[bytes] = []
    for batch in batches:
        records += batch
        if len(records) > _LIMITS.batch_records_max:
            raise TooLarge(f"one append takes at most {_LIMITS.batch_records_max} records")
    if records:
        yield records


def lines_of(descriptor: int, batch: int) -> Iterator[list[bytes]]:
    """Lines of a file in batches; a batch is yielded when no more input is waiting."""
    status = os.fstat(descriptor)
    total = status.st_size if stat.S_ISREG(status.st_mode) else None
    lines: list[bytes] = []
    rest = b""
    read = yielded = 0
    with Bar() as bar:
        while chunk := os.read(descriptor, _CHUNK_SIZE):
            read += len(chunk)
            *complete, rest = (rest + chunk).split(b"\n")
            lines += complete
            if len(rest) > _LIMITS.record_bytes_max:
                raise TooLarge(f"a line is longer than {_LIMITS.record_bytes_max} bytes")
            waiting = select.select([descriptor], [], [], 0)[0]
            rest_count = batch - 1 if waiting and read - yielded < _BATCH_SIZE else 0
            while len(lines) > rest_count:
                yield lines[:batch]
                del lines[:batch]
                yielded = read
            bar.show("file" if total is not None else "stdin", read, total)
    lines += [rest] if rest else []
    for first in range(0, len(lines), batch):
        yield lines[first : first + batch]
