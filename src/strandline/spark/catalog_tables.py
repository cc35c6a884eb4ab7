"""Refuses tables of Spark's catalog with ``USING strandline``, which could never be read.

Spark gives a Python data source the options of a table when it is made, and none when the table is
used. What reaches our source is refused there (``spark/read/options.py``). ``saveAsTable`` and
``writeTo``
reach it as an ordinary write, and would append the rows and then make such a table; so these two
methods of pyspark are wrapped when a session is registered, and refuse our format by name.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from pyspark.sql import readwriter

from strandline.errors import Invalid
from strandline.spark.read.options import FORMAT, NO_TABLES

_CONNECT = "pyspark.sql.connect.readwriter"


def refuse_tables() -> None:
    """Have pyspark's writers refuse tables of our format. Calling it again changes nothing."""
    for module in (readwriter, sys.modules.get(_CONNECT)):
        if module is not None:
            _wrap(module.DataFrameWriter, "saveAsTable", _format_of)
            _wrap(module.DataFrameWriterV2, "using", lambda _writer, provider: provider)


def _wrap(writer: Any, name: str, format_of: Callable[..., str | None]) -> None:
    method = getattr(writer, name)
    if hasattr(method, "refuses_tables"):
        return

    @functools.wraps(method)
    def checked(self: Any, *given: Any, **named: Any) -> Any:
        if str(format_of(self, *given, **named)).lower() == FORMAT:
            raise Invalid(NO_TABLES)
        return method(self, *given, **named)

    checked.refuses_tables = True  # type: ignore[attr-defined] # so that it is wrapped once
    setattr(writer, name, checked)


def _format_of(
    writer: Any,
    name: str,
    format: str | None = None,
    *given: Any,
    **options: Any,
) -> str | None:
    del name, given, options
    if format is not None:
        return format
    java = getattr(writer, "_jwrite", None)
    found = writer._write.source if java is None else java.source()
    return None if found is None else str(found)
