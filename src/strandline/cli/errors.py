"""Turns an error into two lines and an exit code.

    error: there is no topic 'order': create it, or check the name
    hint: did you mean 'orders'?

    0    done
    1    it failed: the disk, a conflict, a bug
    2    the request is wrong: fix the command line
    3    stored bytes are damaged
    4    another process has the store
    130  interrupted
    141  the reader of the output closed the pipe

A traceback is shown only with ``STRANDLINE_DEBUG=1``.
"""

from __future__ import annotations

import contextlib
import os
import sys
import traceback

from cyclopts.exceptions import CycloptsError, UnusedCliTokensError

from strandline.errors import (
    BucketNotFound,
    Conflict,
    Corrupt,
    DiskFull,
    Forbidden,
    Invalid,
    Locked,
    MemoryPressure,
    NotAStore,
    NotFound,
    ObjectStoreDenied,
    ObjectStoreUnreachable,
    StoreFailed,
    StrandlineError,
    TooLarge,
    TopicExists,
    TopicFull,
    Unavailable,
    UnknownTopic,
    UnsupportedFormat,
    UnsupportedObjectStore,
)
from strandline.platform.system_errors import advice

FAILED = 1
WRONG_USE = 2
DAMAGED = 3
LOCKED = 4
INTERRUPTED = 130
OUTPUT_CLOSED = 141

# The first match counts: subclasses stand before their base class.
_HINTS: tuple[tuple[type[StrandlineError], str], ...] = (
    (UnknownTopic, "`strandline topic ls` shows the topics of a store"),
    (TooLarge, "split it into smaller pieces"),
    (
        NotAStore,
        "name a store with --store, or a server with --url; append and topic create create a store",
    ),
    (UnsupportedObjectStore, "the object store must support conditional puts: use another one"),
    (NotFound, "it may have been replaced: try again"),
    (TopicExists, "`strandline topic alter` changes a topic, `strandline topic info` shows it"),
    (TopicFull, "make room with `strandline topic trim`, or raise the cap with `topic alter`"),
    (Conflict, "`strandline topic info` shows the head; read the new records, then try again"),
    (DiskFull, "free some space on the disk; reads and deletes still work"),
    (
        MemoryPressure,
        "try again later, or with less data; a view that is too large needs a program",
    ),
    (Locked, "read, tail, inspect and verify work while another process writes"),
    (StoreFailed, "check the disk and the system log, then try again"),
    (
        ObjectStoreUnreachable,
        "check the address and the network, then try again; `strandline doctor` helps",
    ),
    (Forbidden, "use a token that has this scope: --token-file FILE, or STRANDLINE_TOKEN"),
    (ObjectStoreDenied, "check the credentials of the object store and their permissions"),
    (BucketNotFound, "create the bucket, or check its name and region"),
    (Unavailable, "check the disk, the path and its permissions, then try again"),
    (UnsupportedFormat, "upgrade: pip install --upgrade strandline"),
    (Corrupt, "`strandline verify` lists the damage, `strandline repair --dry-run` what to do"),
    (Invalid, "`strandline --help` lists the commands, COMMAND --help their options"),
)


def report(error: BaseException) -> int:
    """Print the error on stderr and return the exit code."""
    if isinstance(error, BrokenPipeError):
        _discard_stdout()
        return OUTPUT_CLOSED
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if os.environ.get("STRANDLINE_DEBUG") == "1":
        traceback.print_exception(error)
    message, hint = explain(error)
    with contextlib.suppress(BrokenPipeError):
        print(f"error: {message}\nhint: {hint}", file=sys.stderr, flush=True)
    return exit_code(error)


def explain(error: BaseException) -> tuple[str, str]:
    """The message and the hint, one line each."""
    if isinstance(error, CycloptsError):
        message, hint = _explain_usage(error)
    elif isinstance(error, StrandlineError):
        message, hint = str(error), _hint(error)
    elif isinstance(error, OSError):
        hint = advice(error, "check the path and its permissions, then try again")
        message = str(error)
    else:
        message = f"a bug in strandline: {type(error).__name__}: {error}"
        hint = "run it again with STRANDLINE_DEBUG=1 and report what it prints"
    return " ".join(message.split()), " ".join(hint.split())


def exit_code(error: BaseException) -> int:
    if isinstance(error, Invalid | CycloptsError):
        return WRONG_USE
    if isinstance(error, Corrupt):
        return DAMAGED
    return LOCKED if isinstance(error, Locked) else FAILED


def _hint(error: StrandlineError) -> str:
    """The hint that the command attached as a note, or the one for the class of the error."""
    notes = getattr(error, "__notes__", [])
    if notes:
        return str(notes[-1])
    for kind, hint in _HINTS:
        if isinstance(error, kind):
            return advice(error.__cause__, hint)
    return "run it again with STRANDLINE_DEBUG=1 to see more"


def _explain_usage(error: CycloptsError) -> tuple[str, str]:
    text = str(error).partition(" Available commands: ")[0]
    message, _, suggestion = text.partition(" Did you mean ")
    message = message[:1].lower() + message[1:].rstrip(".")
    if message.startswith('unknown command "-'):
        return message, "options come after the command: strandline COMMAND --store PATH"
    if suggestion:
        return message, f"did you mean {suggestion.partition('?')[0]}?"
    if isinstance(error, UnusedCliTokensError) and error.unused_tokens:
        message = f"unexpected argument {error.unused_tokens[0]!r}"
    chain = " ".join(["strandline", *(error.command_chain or ())])
    return message, f"`{chain} --help` shows how it is used"


def _discard_stdout() -> None:
    """Redirect stdout to the null device, so that the last flush of the interpreter succeeds."""
    with contextlib.suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
