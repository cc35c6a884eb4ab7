"""Contexts: names for stores and servers, stored in a file of the user.

    {"current": "shop", "contexts": {"shop": {"url": "https://logs.example.org",
                                              "token_env": "SHOP_TOKEN"}}}

The file is ``contexts.json`` in the user's configuration directory, or the path
in ``STRANDLINE_CONFIG``. Only its owner can read it. It holds a token only after
``context add --keep-token``.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import tempfile

import msgspec
import platformdirs

from strandline.errors import Invalid, NotFound

FILE_VARIABLE = "STRANDLINE_CONFIG"
_FILE_NAME = "contexts.json"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class ContextEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A directory, or a server and the source of its token."""

    store: str = ""
    url: str = ""
    token: str = ""
    token_file: str = ""
    token_env: str = ""

    @property
    def token_source(self) -> str:
        """The source of the token as text, without the token."""
        if self.token_file:
            return f"file {self.token_file}"
        if self.token_env:
            return f"variable {self.token_env}"
        return "stored here" if self.token else ""


class ContextFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The content of the file."""

    current: str = ""
    contexts: dict[str, ContextEntry] = {}

    def find(self, name: str) -> ContextEntry:
        """The context of this name, or an error with the nearest name."""
        context = self.contexts.get(name)
        if context is not None:
            return context
        error = NotFound(f"there is no context {name!r}")
        near = difflib.get_close_matches(name, self.contexts, n=1)
        error.add_note(
            f"did you mean {near[0]!r}?"
            if near
            else "`strandline context ls` lists them, `strandline context add` adds one"
        )
        raise error


def file_path() -> str:
    """The path of the contexts file."""
    path = os.environ.get(FILE_VARIABLE)
    return path or os.path.join(platformdirs.user_config_dir("strandline"), _FILE_NAME)


def load() -> ContextFile:
    """All contexts; none when there is no file."""
    path = file_path()
    try:
        with open(path, "rb") as file:
            content = file.read()
    except FileNotFoundError:
        return ContextFile()
    try:
        return msgspec.json.decode(content, type=ContextFile)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        damaged = Invalid(f"{path} is not a file of contexts: {error}")
        damaged.add_note("repair it, or move it away and add the contexts again")
        raise damaged from error


def save(contexts: ContextFile) -> None:
    """Replace the file atomically; only its owner can read it."""
    path = os.path.abspath(file_path())
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    content = msgspec.json.format(msgspec.json.encode(contexts), indent=2)
    descriptor, temporary = tempfile.mkstemp(prefix=".contexts-", dir=os.path.dirname(path))
    try:
        with open(descriptor, "wb") as file:  # mkstemp makes it readable only by its owner
            file.write(content + b"\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def check_name(name: str) -> str:
    """The name itself, or ``Invalid``."""
    if not _NAME.fullmatch(name):
        raise Invalid(f"{name!r} is not a valid context name: use letters, digits and . _ -")
    return name
