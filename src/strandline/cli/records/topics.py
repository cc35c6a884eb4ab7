"""``strandline topic``: list, create, show, alter, delete and trim."""

from __future__ import annotations

from cyclopts import App

from strandline.cli.input.confirm import Yes, confirm
from strandline.cli.open_store import (
    find_topic,
    open_target_to_read,
    open_target_to_write,
    read_with_refresh,
)
from strandline.cli.options import NO_TOPIC_OPTIONS, TARGET, Flag, Target, TopicConfigOptions
from strandline.cli.output import formatting
from strandline.cli.output.formatting import Cells, OutputRow, PreparedRow, row_of
from strandline.cli.output.output import output
from strandline.config.view_config import KINDS, ViewConfigs
from strandline.errors import Invalid
from strandline.lake.cold_index import ColdSummary
from strandline.log.state.statistics import TopicStatistics
from strandline.store import Store

_CHUNK = 1000
app = App(name="topic")


@app.command(name="ls", alias="list")
def list_topics(
    prefix: str = "",
    /,
    *,
    target: Target = TARGET,
) -> None:
    """List the topics.

    Parameters
    ----------
    prefix
        Only topics whose name begins with this.
    """
    out = output(target.output)
    with open_target_to_read(target) as store:
        names = store.topics(prefix)
        for first in range(0, len(names), _CHUNK):
            chunk = names[first : first + _CHUNK]
            out.rows([_list_row(_statistics(store, name)) for name in chunk])
    out.end()


@app.command
def create(
    topic: str,
    /,
    *,
    options: TopicConfigOptions = NO_TOPIC_OPTIONS,
    target: Target = TARGET,
) -> None:
    """Create a topic, and the store if there is none.

    Parameters
    ----------
    topic
        Name of the topic: letters, digits and . _ : -
    """
    with open_target_to_write(target, create=True) as store:
        new_topic = store.create_topic(topic, **options.changes())
        output(target.output).one(_info_row(new_topic.statistics()))


@app.command(name="info", alias="show")
def show(
    topic: str,
    /,
    *,
    target: Target = TARGET,
) -> None:
    """Show the statistics and the configuration of a topic.

    Parameters
    ----------
    topic
        Name of the topic.
    """
    with open_target_to_read(target) as store:
        output(target.output).one(_info_row(_statistics(store, topic)))


@app.command
def alter(
    topic: str,
    /,
    *,
    options: TopicConfigOptions = NO_TOPIC_OPTIONS,
    target: Target = TARGET,
) -> None:
    """Change the configuration of a topic from now on.

    Parameters
    ----------
    topic
        Name of the topic.
    """
    changes = options.changes()
    if not changes:
        raise Invalid("name an option to alter: --durability, --ttl, --cap-records, --schema, …")
    with open_target_to_write(target, create=False) as store:
        existing = find_topic(store, topic)
        existing.alter(**changes)
        output(target.output).one(_info_row(existing.statistics()))


@app.command(name="rm", alias="delete")
def delete(
    topic: str,
    /,
    *,
    if_empty: Flag = False,
    yes: Yes = False,
    target: Target = TARGET,
) -> None:
    """Delete a topic with all its records. It asks first; without a terminal it needs `--yes`.

    Parameters
    ----------
    topic
        Name of the topic.
    if_empty
        Reject the delete if the topic has records.
    """
    with open_target_to_write(target, create=False) as store:
        statistics = find_topic(store, topic).statistics()
        if statistics.count and not (yes or if_empty):
            confirm(f"Delete topic {topic!r} and its {statistics.count} records?")
        store.delete_topic(topic, if_empty=if_empty)
        result = {"topic": topic, "deleted": True, "records": statistics.count}
        output(target.output).one(
            PreparedRow(result, {name: formatting.text(it) for name, it in result.items()})
        )


@app.command
def trim(
    topic: str,
    /,
    *,
    before: int | None = None,
    match: str | None = None,
    yes: Yes = False,
    target: Target = TARGET,
) -> None:
    """Delete records of a topic permanently. It asks first; without a terminal it needs `--yes`.

    Parameters
    ----------
    topic
        Name of the topic.
    before
        Delete the records below this seq.
    match
        Delete the records with this tag; `eu*` for every tag with this prefix.
    """
    if before is None and match is None:
        raise Invalid("name records to delete: --before SEQ, --match TAG, or both")
    with open_target_to_write(target, create=False) as store:
        existing = find_topic(store, topic)
        if not yes:
            below = "" if before is None else f" below seq {before}"
            tagged = "" if match is None else f" with the tag {match!r}"
            confirm(f"Delete the records of {topic!r}{below}{tagged}?")
        result = existing.delete(before=before, match=match)
        output(target.output).one(row_of(result))


def _statistics(store: Store, name: str) -> TopicStatistics:
    return read_with_refresh(store, lambda: find_topic(store, name).statistics())


def _list_row(statistics: TopicStatistics) -> OutputRow:
    config = statistics.config
    caps = [f"{config.cap_records} records"] if config.cap_records else []
    caps += [formatting.size(config.cap_bytes)] if config.cap_bytes else []
    columns = {
        "topic": statistics.name,
        "records": str(statistics.count),
        "earliest": str(statistics.earliest_seq),
        "head": str(statistics.head_seq),
        "size": formatting.size(statistics.payload_bytes),
        "durability": config.durability,
        "ttl": formatting.duration(config.ttl_ms),
        "cap": ", ".join(caps) or "-",
        "newest": formatting.time_text(statistics.last_ts) if statistics.last_ts else "-",
    }
    return _row(statistics, columns)


def _info_row(statistics: TopicStatistics) -> OutputRow:
    config = statistics.config
    facts = {
        "name": statistics.name,
        "records": str(statistics.count),
        "earliest seq": str(statistics.earliest_seq),
        "head seq": str(statistics.head_seq),
        "evict floor": str(statistics.evict_floor),
        "size": f"{formatting.size(statistics.payload_bytes)} ({statistics.payload_bytes} bytes)",
        "in the lake": _cold(statistics.cold),
        "newest": formatting.time_text(statistics.last_ts) if statistics.last_ts else "-",
        "epoch": formatting.time_text(statistics.epoch),
        "durability": config.durability,
        "ttl": formatting.duration(config.ttl_ms),
        "cap records": str(config.cap_records or "-"),
        "cap bytes": str(config.cap_bytes or "-"),
        "discard": config.discard,
        "idempotency window": formatting.duration(config.idempotency_window_ms),
        "dedupe node": formatting.text(config.dedupe_node),
        "schema": formatting.schema(config.schema, config.schema_version),
        "views": _views(config.views),
    }
    return _row(statistics, facts)


def _row(statistics: TopicStatistics, texts: Cells) -> OutputRow:
    """A topic; the JSON of its configuration has only the views that exist."""
    json = row_of(statistics, texts).json
    views = statistics.config.views
    existing = {
        kind: formatting.jsonable(it) for kind in KINDS if (it := getattr(views, kind)) is not None
    }
    owner = {"owner": views.owner} if views.owner else {}
    config = json["config"]
    assert isinstance(config, dict)
    return PreparedRow(json | {"config": config | {"views": existing | owner}}, texts)


def _views(views: ViewConfigs) -> str:
    if views.owner:
        return f"of {views.owner}"
    return ", ".join(kind for kind in KINDS if getattr(views, kind) is not None) or "-"


def _cold(cold: ColdSummary | None) -> str:
    if cold is None or not cold.files:
        return "-"
    size = formatting.size(cold.size)
    return f"seqs {cold.first_seq} to {cold.last_seq}, {cold.files} files, {size}"
