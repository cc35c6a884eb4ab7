"""The fuzz targets by name: a module with ``check(data: bytes)`` and ``SEEDS`` for each."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

INSTRUMENTED = {
    "arrow": (
        "strandline.server.http.arrow_streams",
        "strandline.log.append.batch",
        "strandline.log.wal.block",
    ),
    "command": (
        "strandline.query.language.parser",
        "strandline.query.language.ast_builder",
        "strandline.query.words",
    ),
    "lines": ("strandline.views.metrics",),
    "manifest": ("strandline.lake", "strandline.log.files.checkpoint_codec"),
    "segment": ("strandline.log.segments",),
    "sql": ("strandline.query.sql.statement", "strandline.query.language.errors"),
    "wal": ("strandline.log.wal",),
    "websocket": ("strandline.server.live.ws_protocol", "websockets"),
}
"""The code whose branches guide the fuzzer, by target: to instrument all of it takes a minute."""

NAMES = tuple(INSTRUMENTED)
CORPUS = Path(__file__).parent / "corpus"


def target_of(name: str) -> ModuleType:
    return importlib.import_module(f"tests.fuzz.{name}_target")


def corpus_of(name: str) -> list[bytes]:
    """The seeds of a target, and what fuzzing has found of its ways through the code."""
    files = sorted((CORPUS / name).iterdir()) if (CORPUS / name).is_dir() else []
    return [*target_of(name).SEEDS, *(path.read_bytes() for path in files)]
