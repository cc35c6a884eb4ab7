"""``strandline audit``: show and verify the audit log, and start a new chain after damage."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter

from strandline.cli import errors
from strandline.cli.open_store import open_to_read, open_to_write, read_with_refresh
from strandline.cli.options import TARGET, Flag, Target
from strandline.cli.output import formatting
from strandline.cli.output.formatting import OutputRow, PreparedRow
from strandline.cli.output.output import output, print_report
from strandline.errors import Invalid
from strandline.platform.clock import SystemClock
from strandline.security import audit as log
from strandline.security.audit import AuditLogEntry

app = App(name="audit")


@app.command
def show(*, after: int = 0, limit: int = 100, target: Target = TARGET) -> None:
    """Print entries in order.

    Parameters
    ----------
    after
        The cursor: print the entries after this seq.
    limit
        Print at most this many entries.
    """
    if limit < 1:
        raise Invalid("--limit is 1 or more")
    out = output(target.output)
    with open_to_read(target.store, target.lake_url) as store:
        if log.TOPIC in store.topics(log.TOPIC):
            topic = store.existing_topic(log.TOPIC)
            page = read_with_refresh(store, lambda: topic.read(after, limit))
            entries = [(record.seq, log.decode(record)) for record in page.records]
            out.rows([_row(seq, entry) for seq, entry in entries])
    out.end()


@app.command
def verify(*, target: Target = TARGET) -> int:
    """Verify every entry: exit code 3 if one was changed, removed or moved.

    Store the last hash elsewhere and compare it: this detects a log that was rewritten as a whole.
    """
    with open_to_read(target.store, target.lake_url) as store:
        if log.TOPIC not in store.topics(log.TOPIC):
            raise Invalid("there is no audit log: no server has opened this store yet")
        topic = store.existing_topic(log.TOPIC)
        verification = read_with_refresh(store, lambda: log.verify(topic))
    facts = {
        "holds": verification.is_intact,
        "entries": verification.entries,
        "restarts": verification.restarts,
        "last_hash": verification.last_hash,
        "broken": [each._asdict() for each in verification.broken],
    }
    broken = [formatting.fact_row(each._asdict()) for each in verification.broken]
    shown = {name: formatting.text(value) for name, value in facts.items() if name != "broken"}
    print_report(target.output, PreparedRow(facts, shown), {"broken": broken})
    return 0 if verification.is_intact else errors.DAMAGED


@app.command
def restart(
    *,
    yes: Annotated[Flag, Parameter(name=["--yes", "-y"])] = False,
    target: Target = TARGET,
) -> None:
    """Start a new chain after damage, so that a server can start again. Old entries stay.

    Parameters
    ----------
    yes
        Confirm that you have run `strandline audit verify`.
    """
    if not yes:
        raise Invalid("run `strandline audit verify` first, then give --yes")
    with open_to_write(target.store, create=False, lake_url=target.lake_url) as store:
        placed = log.restart(store, SystemClock(), reason="command line").wait()
        output(target.output).one(formatting.fact_row({"restarted_at": placed.first_seq}))


def _row(seq: int, entry: AuditLogEntry | None) -> OutputRow:
    if entry is None:
        return PreparedRow({"seq": seq, "damaged": True}, _no_cells(seq))
    return PreparedRow(
        {"seq": seq} | {name: getattr(entry, name) for name in entry.__struct_fields__},
        {
            "seq": str(seq),
            "time": formatting.time_text(entry.at_us),
            "kind": formatting.plain(entry.kind),
            "who": formatting.plain(entry.who) or None,
            "address": formatting.plain(entry.address) or None,
            "what": formatting.text(dict(entry.what)),
        },
    )


def _no_cells(seq: int) -> dict[str, str | None]:
    names = ("time", "who", "address", "what")
    return {"seq": str(seq), "kind": "(damaged)"} | dict.fromkeys(names)
