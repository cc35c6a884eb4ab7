"""Rejects tables of Spark's catalog with ``USING strandline``, which could not be read.

Spark passes the options of a table to a Python data source when the table is created, and none when
it is used. The source rejects tables that reach it (``spark/read/options.py``). ``saveAsTable`` and
``writeTo`` reach it as an ordinary write: they would append the rows and then create such a table.
These two methods of pyspark are therefore wrapped when a session is registered, and reject the
format by its name.
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


def reject_tables() -> None:
    """Make the writers of pyspark reject tables of this format. Idempotent."""
    for module in (readwriter, sys.modules.get(_CONNECT)):
        if module is not None:
            _wrap(module.DataFrameWriter, "saveAsTable", _format_of)
            _wrap(module.DataFrameWriterV2, "using", lambda _writer, provider: provider)


def _wrap(writer: Any, name: str, format_of: Callable[..., str | None]) -> None:
    method = getattr(writer, name)
    if hasattr(method, "refuses_tables"):
        return

    @functools.wraps(method)
    def checked(self: Any, *args: Any, **kwargs: Any) -> Any:
        if str(format_of(self, *args, **kwargs)).lower() == FORMAT:
            raise Invalid(NO_TABLES)
        return method(self, *args, **kwargs)

    checked.refuses_tables = True  # type: ignore[attr-defined] # so that it is wrapped only once
    setattr(writer, name, checked)


def _format_of(
    writer: Any,
    name: str,
    format: str | None = None,
    *args: Any,
    **options: Any,
) -> str | None:
    del name, args, options
    if format is not None:
        return format
    java = getattr(writer, "_jwrite", None)
    source = writer._write.source if java is None else java.source()
    return None if source is None else str(source)
