"""``strandline audit``: show the audit log, look whether it holds, and go on behind damage."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter

from strandline.cli import errors
from strandline.cli.open_store import open_to_read, open_to_write, read_again
from strandline.cli.options import TARGET, Flag, Target
from strandline.cli.output import formatting
from strandline.cli.output.formatting import Made, Row
from strandline.cli.output.output import output, print_report
from strandline.errors import Invalid
from strandline.platform.clock import SystemClock
from strandline.security import audit as log
from strandline.security.audit import Entry

app = App(name="audit")


@app.command
def show(*, after: int = 0, limit: int = 100, target: Target = TARGET) -> None:
    """Print entries in their order.

    Parameters
    ----------
    after
        The cursor: go on behind this seq.
    limit
        Print at most so many.
    """
    if limit < 1:
        raise Invalid("--limit is 1 or more")
    out = output(target.output)
    with open_to_read(target.store, target.lake_url) as store:
        if log.TOPIC in store.topics(log.TOPIC):
            topic = store.existing_topic(log.TOPIC)
            page = read_again(store, lambda: topic.read(after, limit))
            found = [(record.seq, log.decoded(record)) for record in page.records]
            out.rows([_row(seq, entry) for seq, entry in found])
    out.end()


@app.command
def verify(*, target: Target = TARGET) -> int:
    """Look at every entry: exit code 3 when one was changed, left out or put elsewhere.

    Note the last hash elsewhere, and compare: then nobody can write the whole log anew unnoticed.
    """
    with open_to_read(target.store, target.lake_url) as store:
        if log.TOPIC not in store.topics(log.TOPIC):
            raise Invalid("there is no audit log: no server has had this store yet")
        topic = store.existing_topic(log.TOPIC)
        found = read_again(store, lambda: log.verify(topic))
    facts = {
        "holds": found.holds,
        "entries": found.entries,
        "restarts": found.restarts,
        "last_hash": found.last_hash,
        "broken": [each._asdict() for each in found.broken],
    }
    broken = [formatting.fact_row(each._asdict()) for each in found.broken]
    shown = {name: formatting.text(value) for name, value in facts.items() if name != "broken"}
    print_report(target.output, Made(facts, shown), {"broken": broken})
    return 0 if found.holds else errors.DAMAGED


@app.command
def restart(
    *,
    yes: Annotated[Flag, Parameter(name=["--yes", "-y"])] = False,
    target: Target = TARGET,
) -> None:
    """Begin the chain anew behind damage, so that a server starts again. What is there stays.

    Parameters
    ----------
    yes
        You have looked at `strandline audit verify`.
    """
    if not yes:
        raise Invalid("look at `strandline audit verify` first, then say --yes")
    with open_to_write(target.store, create=False, lake_url=target.lake_url) as store:
        placed = log.restart(store, SystemClock(), reason="command line").wait()
        output(target.output).one(formatting.fact_row({"restarted_at": placed.first_seq}))


def _row(seq: int, entry: Entry | None) -> Row:
    if entry is None:
        return Made({"seq": seq, "damaged": True}, _no_cells(seq))
    return Made(
        {"seq": seq} | {name: getattr(entry, name) for name in entry.__struct_fields__},
        {
            "seq": str(seq),
            "time": formatting.moment(entry.at_us),
            "kind": formatting.plain(entry.kind),
            "who": formatting.plain(entry.who) or None,
            "address": formatting.plain(entry.address) or None,
            "what": formatting.text(dict(entry.what)),
        },
    )


def _no_cells(seq: int) -> dict[str, str | None]:
    names = ("time", "who", "address", "what")
    return {"seq": str(seq), "kind": "(damaged)"} | dict.fromkeys(names)
