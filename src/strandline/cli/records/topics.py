"""``strandline topic``: list, create, show, alter, delete and trim."""

from __future__ import annotations

from cyclopts import App

from strandline.cli.input.confirm import Yes, ask
from strandline.cli.open_store import find_topic, read_again, reading, writing
from strandline.cli.options import NOTHING_GIVEN, TARGET, Flag, Target, TopicOptions
from strandline.cli.output import formatting
from strandline.cli.output.formatting import Cells, Made, Row, row_of
from strandline.cli.output.output import output
from strandline.config.view_config import KINDS, ViewConfigs
from strandline.errors import Invalid
from strandline.lake.cold_index import ColdSummary
from strandline.log.state.statistics import TopicStatistics
from strandline.store import Store

_LISTED_AT_ONCE = 1000
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
        Only topics whose name begins so.
    """
    out = output(target.output)
    with reading(target) as store:
        names = store.topics(prefix)
        for first in range(0, len(names), _LISTED_AT_ONCE):
            some = names[first : first + _LISTED_AT_ONCE]
            out.rows([_listed(_statistics(store, name)) for name in some])
    out.end()


@app.command
def create(
    topic: str,
    /,
    *,
    options: TopicOptions = NOTHING_GIVEN,
    target: Target = TARGET,
) -> None:
    """Create a topic, and the store if there is none.

    Parameters
    ----------
    topic
        Name of the topic: letters, digits and . _ : -
    """
    with writing(target, create=True) as store:
        made = store.create_topic(topic, **options.given())
        output(target.output).one(_shown(made.statistics()))


@app.command(name="info", alias="show")
def show(
    topic: str,
    /,
    *,
    target: Target = TARGET,
) -> None:
    """Show a topic's numbers and its configuration.

    Parameters
    ----------
    topic
        Name of the topic.
    """
    with reading(target) as store:
        output(target.output).one(_shown(_statistics(store, topic)))


@app.command
def alter(
    topic: str,
    /,
    *,
    options: TopicOptions = NOTHING_GIVEN,
    target: Target = TARGET,
) -> None:
    """Change how a topic keeps its records, from here on.

    Parameters
    ----------
    topic
        Name of the topic.
    """
    given = options.given()
    if not given:
        raise Invalid("say what to alter: --durability, --ttl, --cap-records, --schema, …")
    with writing(target, create=False) as store:
        found = find_topic(store, topic)
        found.alter(**given)
        output(target.output).one(_shown(found.statistics()))


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
        Refuse when it has records.
    """
    with writing(target, create=False) as store:
        statistics = find_topic(store, topic).statistics()
        if statistics.count and not (yes or if_empty):
            ask(f"Delete topic {topic!r} and its {statistics.count} records?")
        store.delete_topic(topic, if_empty=if_empty)
        done = {"topic": topic, "deleted": True, "records": statistics.count}
        output(target.output).one(
            Made(done, {name: formatting.text(it) for name, it in done.items()})
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
    """Delete records of a topic for good. It asks first; without a terminal it needs `--yes`.

    Parameters
    ----------
    topic
        Name of the topic.
    before
        Delete the records below this seq.
    match
        Delete the records with this tag; `eu*` for every tag that begins so.
    """
    if before is None and match is None:
        raise Invalid("say what to delete: --before SEQ, --match TAG, or both")
    with writing(target, create=False) as store:
        found = find_topic(store, topic)
        if not yes:
            below = "" if before is None else f" below seq {before}"
            tagged = "" if match is None else f" with the tag {match!r}"
            ask(f"Delete the records of {topic!r}{below}{tagged}?")
        done = found.delete(before=before, match=match)
        output(target.output).one(row_of(done))


def _statistics(store: Store, name: str) -> TopicStatistics:
    return read_again(store, lambda: find_topic(store, name).statistics())


def _listed(statistics: TopicStatistics) -> Row:
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
        "newest": formatting.moment(statistics.last_ts) if statistics.last_ts else "-",
    }
    return _row(statistics, columns)


def _shown(statistics: TopicStatistics) -> Row:
    config = statistics.config
    facts = {
        "name": statistics.name,
        "records": str(statistics.count),
        "earliest seq": str(statistics.earliest_seq),
        "head seq": str(statistics.head_seq),
        "evict floor": str(statistics.evict_floor),
        "size": f"{formatting.size(statistics.payload_bytes)} ({statistics.payload_bytes} bytes)",
        "in the lake": _cold(statistics.cold),
        "newest": formatting.moment(statistics.last_ts) if statistics.last_ts else "-",
        "epoch": formatting.moment(statistics.epoch),
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


def _row(statistics: TopicStatistics, texts: Cells) -> Row:
    """The topic with the views that it has: those that it lacks are not worth a line."""
    json = row_of(statistics, texts).json
    views = statistics.config.views
    had = {
        kind: formatting.jsonable(it) for kind in KINDS if (it := getattr(views, kind)) is not None
    }
    owner = {"owner": views.owner} if views.owner else {}
    config = json["config"]
    assert isinstance(config, dict)
    return Made(json | {"config": config | {"views": had | owner}}, texts)


def _views(views: ViewConfigs) -> str:
    if views.owner:
        return f"of {views.owner}"
    return ", ".join(kind for kind in KINDS if getattr(views, kind) is not None) or "-"


def _cold(cold: ColdSummary | None) -> str:
    if cold is None or not cold.files:
        return "-"
    size = formatting.size(cold.size)
    return f"seqs {cold.first_seq} to {cold.last_seq}, {cold.files} files, {size}"
