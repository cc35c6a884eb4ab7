"""EXPLAIN: what a query read and how long it took, as a dict and as text.

The query is run, so all values are measured, not estimated.

    QUERY over pay: 3 rows in 1.9 ms
    read pay
      columns  seq, amount
      where    amount > 100
      files    1 of 4      zones 2 of 37      memory rows 120
      rows     16504       bytes 98304        indexes amount: fence, amount: imprint
    time
      plan 0.2 ms, read 0.8 ms, calculate 0.7 ms
    sql
      SELECT ...
"""

from __future__ import annotations

from typing import Any

from strandline.errors import Invalid
from strandline.query.execute.profile import Profile, SourceProfile
from strandline.query.execute.result import Result


def explain_dict(result: Result) -> dict[str, Any]:
    """The cost of a query as a dict."""
    profile = _profile(result)
    return {
        "rows": profile.rows,
        "seconds": dict(profile.seconds),
        "tables": [_source(source) for source in profile.sources],
        "sql": list(profile.sql),
    }


def explain_text(result: Result) -> str:
    """The cost of a query as text."""
    profile = _profile(result)
    tables = ", ".join(dict.fromkeys(source.table for source in profile.sources)) or "nothing read"
    total = profile.seconds.get("total", 0.0)
    lines = [f"{tables}: {profile.rows} rows in {_ms(total)}"]
    for source in profile.sources:
        lines += _lines(source)
    steps = [f"{step} {_ms(spent)}" for step, spent in profile.seconds.items() if step != "total"]
    lines += ["time", f"  {', '.join(steps) or _ms(total)}"]
    lines += ["sql", *(f"  {text}" for text in profile.sql)]
    return "\n".join(lines)


def _profile(result: Result) -> Profile:
    if result.profile is None:
        raise Invalid("this result is not from a query: there is nothing to explain")
    return result.profile


def _source(source: SourceProfile) -> dict[str, Any]:
    facts = source.facts
    return {
        "table": source.table,
        "columns": list(source.columns),
        "where": source.condition,
        "files": facts.files,
        "files_kept": facts.files_kept,
        "zones": facts.zones,
        "zones_kept": facts.zones_kept,
        "memory_rows": facts.memory_rows,
        "rows": facts.rows,
        "bytes_read": facts.bytes_read,
        "indexes": list(facts.indexes),
        "seconds": dict(facts.seconds),
    }


def _lines(source: SourceProfile) -> list[str]:
    facts = source.facts
    lines = [f"read {source.table}", f"  columns  {', '.join(source.columns)}"]
    if source.condition:
        lines.append(f"  where    {source.condition}")
    lines += [
        f"  files    {facts.files_kept} of {facts.files}",
        f"  zones    {facts.zones_kept} of {facts.zones}",
        f"  memory   {facts.memory_rows} rows",
        f"  rows     {facts.rows}",
        f"  bytes    {facts.bytes_read}",
        f"  indexes  {', '.join(facts.indexes) or 'none'}",
    ]
    if facts.seconds:
        steps = (f"{step} {_ms(spent)}" for step, spent in facts.seconds.items())
        lines.append(f"  time     {', '.join(steps)}")
    return lines


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"
