"""What a read or write may be told: ``.format("strandline").option(…)``. Checked here, once.

| option of a read | |
|---|---|
| `store`, or the path given to `load` | folder of the store, or the url of its lake |
| `url`, `token` | a server in the place of a store; the token is else that of the environment |
| `view` | what the topic is read as: `log`, or one of its views |
| `measurement` | of `view=metrics`: one of them, a column for each tag and field |
| `topic` | a name, names with commas between them, or patterns with `*` |
| `lake` | where the lake is, when it is not in the store's folder |
| `reservoir` | where views are saved, when it is not in the store's folder (`views.url`) |
| `columns` | names with commas between them; all when absent |
| `from`, `to` | the first record, and the first one not: a seq, or a time in ISO format |
| `as_of` | only what was there at a position (as ``position`` tells it) or a time |
| `maxRecordsPerTrigger` | stream: records of one batch at most |
| `onLoss` | stream: `fail` or `report` |
| `pinned` | what ``table`` tells its own hot part |

| option of a write | |
|---|---|
| `store` or path, `topic`, `lake` | as above; one topic, of a store in a folder |
| `view` | through which view rows are written: `log`, or one that the topic has |
| `onInvalid` | `fail`, or the topic that takes rows which do not fit the view |
| `measurement`, `tags` | of `view=metrics`: which one, and which columns are tags |
| `createTopic` | `true` makes a topic that does not exist |
| `writeId` | batch: a name of this write, by which it is known when it is repeated |
| `patience` | seconds to wait until the store's writer has taken the rows |
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import msgspec

from strandline.errors import Invalid
from strandline.pipelines.delivery_client import PATIENCE_S
from strandline.pipelines.lake_selection import is_pattern
from strandline.pipelines.splits import record_schema
from strandline.pipelines.splits.predicates import Condition, time_of
from strandline.pipelines.splits.snapshot_position import Offsets
from strandline.records import check_topic_name

FORMAT = "strandline"
LOG = "log"
VIEWS = (LOG, "table", "kv", "kv_history", "queue", "dead", "series", "metrics")
"""What a topic may be read as."""
WRITTEN = (LOG, "table", "kv", "queue", "series", "metrics")
"""Through what rows may be written."""
FAIL = "fail"
TOKEN_VARIABLE = "STRANDLINE_TOKEN"  # noqa: S105 - the name of a variable

_NAMES = {
    name.lower(): name
    for name in (
        *("store", "path", "topic", "lake", "reservoir", "columns", "from", "to", "as_of"),
        *("view", "measurement", "url", "token", "maxRecordsPerTrigger", "onLoss", "pinned"),
    )
}

_WRITING = {
    name.lower(): name
    for name in (
        *("store", "path", "topic", "lake", "createTopic", "writeId", "patience"),
        *("view", "onInvalid", "measurement", "tags"),
    )
}
NO_TABLES = (
    "Spark's catalog cannot have a table of format strandline, since it gives the source no option "
    "of the table: read with strandline.spark.mount(spark, store) or CREATE TEMPORARY VIEW … "
    "USING strandline OPTIONS (store '/folder', topic 'orders'), and write with "
    'df.write.format("strandline").mode("append").option("topic", "orders").save("/folder")'
)
_OF_A_TABLE = frozenset({"provider", "owner"})
"""Properties of a table that Spark gives as options while it makes one."""
_SPARKS = frozenset({"checkpointlocation", "queryname", "outputmode"})
"""Options of a stream that are Spark's own, and that it tells the sink too."""


class Secret(msgspec.Struct, frozen=True):
    """A token. It is shown by nothing."""

    value: str = ""

    def __repr__(self) -> str:
        return "Secret(…)"


class ReadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """One read, as it was asked for."""

    store: str = ""
    """Its folder, or the url of its lake; empty when it is a server's."""
    url: str = ""
    token: Secret = Secret()
    view: str = LOG
    measurement: str = ""
    topics: tuple[str, ...]
    """Names and patterns."""
    many: bool
    """Whether the read is of several topics, and so has a column for their names."""
    lake: str = ""
    reservoir: str = ""
    columns: tuple[str, ...]
    """Of records; for a view those that were asked for, none for all."""
    begin: str = ""
    end: str = ""
    as_of: str = ""
    on_loss: str = ""
    records_max: int = 0
    pinned: str = ""

    @property
    def is_remote(self) -> bool:
        """Whether there is no folder: the lake alone is read."""
        return "://" in self.store

    def conditions(self) -> tuple[Condition, ...]:
        """What ``from``, ``to`` and a time in ``as_of`` say about rows."""
        made = []
        if self.begin:
            made.append(_bound(self.begin, ">="))
        if self.end:
            made.append(_bound(self.end, "<"))
        if self.as_of and not self.as_of.startswith("{"):
            made.append(Condition("ts", "<=", time_of(self.as_of)))
        return tuple(made)

    def offsets(self) -> Offsets | None:
        """The position in ``as_of``."""
        return Offsets.decode(self.as_of) if self.as_of.startswith("{") else None


class WriteOptions(msgspec.Struct, frozen=True, kw_only=True):
    """One write, as it was asked for."""

    store: str
    topic: str
    lake: str = ""
    view: str = LOG
    on_invalid: str = FAIL
    measurement: str = ""
    tags: tuple[str, ...] = ()
    create: bool = False
    write_id: str = ""
    patience_s: float = PATIENCE_S


def parse_write(given: Mapping[str, str]) -> WriteOptions:
    """The options of a write, or ``Invalid`` that names the bad one."""
    told = _told({name: given[name] for name in given if name.lower() not in _SPARKS}, _WRITING)
    store = _store(told, 'save("/folder")')
    if "://" in store:
        raise Invalid(
            f"rows are delivered to the folder of a store, not to {_shown(store)}: name the folder "
            "as store, and the url as lake"
        )
    topic = told.get("topic", "")
    if not topic or "," in topic or is_pattern(topic):
        raise Invalid('name one topic to write to: .option("topic", "orders")')
    create = told.get("createTopic", "false").lower()
    if create not in ("true", "false"):
        raise Invalid(f"createTopic is true or false, not {create!r}")
    patience = told.get("patience", str(PATIENCE_S))
    if not patience.replace(".", "", 1).isdecimal():
        raise Invalid(f"patience is a number of seconds, not {patience!r}")
    view = _view(told, WRITTEN)
    on_invalid = told.get("onInvalid", FAIL)
    if on_invalid != FAIL and view == LOG:
        raise Invalid("onInvalid is for writes through a view: every row is a record of a log")
    if on_invalid == topic:
        raise Invalid(f"onInvalid names the topic {topic!r} itself: name another one")
    tags = tuple(part.strip() for part in told.get("tags", "").split(",") if part.strip())
    if (view == "metrics") != bool(told.get("measurement")) or (tags and view != "metrics"):
        raise Invalid('with view=metrics, and only then, say .option("measurement", "cpu")')
    return WriteOptions(
        store=store,
        topic=check_topic_name(topic),
        lake=told.get("lake", ""),
        view=view,
        on_invalid=on_invalid if on_invalid == FAIL else check_topic_name(on_invalid),
        measurement=told.get("measurement", ""),
        tags=tags,
        create=create == "true",
        write_id=told.get("writeId", ""),
        patience_s=float(patience),
    )


def parse(given: Mapping[str, str]) -> ReadOptions:
    """The options of a read, or ``Invalid`` that names the bad one."""
    told = _told(given, _NAMES)
    url = told.get("url", "")
    store = "" if url else _store(told, 'load("/folder")')
    if url and any(told.get(name) for name in ("store", "path", "lake", "reservoir")):
        raise Invalid("url names a server: leave out store, lake and reservoir")
    if "://" in store and told.get("lake"):
        raise Invalid(f"{_shown(store)} is the lake already: leave lake out, or name the folder")
    view = _view(told, VIEWS)
    if told.get("measurement") and view != "metrics":
        raise Invalid("measurement is for view=metrics")
    topics = tuple(part.strip() for part in told.get("topic", "").split(",") if part.strip())
    if not topics:
        raise Invalid('name the topic: .option("topic", "orders"), "a,b" or "eu-*" for several')
    many = len(topics) > 1 or any(is_pattern(topic) for topic in topics)
    on_loss = told.get("onLoss", "")
    if on_loss not in ("", "fail", "report"):
        raise Invalid(f"onLoss is fail or report, not {on_loss!r}")
    wanted = [part.strip() for part in told["columns"].split(",")] if "columns" in told else None
    if many and view != LOG:
        raise Invalid(f"a read with view={view} is of one topic: read several one by one")
    if view == LOG:
        named = record_schema.chosen(wanted, many=many, lost=on_loss == "report")
    else:
        named = tuple(wanted or ())
    options = ReadOptions(
        store=store,
        url=url,
        token=Secret(told.get("token") or (os.environ.get(TOKEN_VARIABLE, "") if url else "")),
        view=view,
        measurement=told.get("measurement", ""),
        topics=topics,
        many=many,
        lake=told.get("lake", ""),
        reservoir=told.get("reservoir", "").rstrip("/"),
        columns=named,
        begin=told.get("from", ""),
        end=told.get("to", ""),
        as_of=told.get("as_of", ""),
        on_loss=on_loss,
        records_max=_count(told.get("maxRecordsPerTrigger", "0")),
        pinned=told.get("pinned", ""),
    )
    if options.begin not in ("earliest", "latest"):
        options.conditions()
        options.offsets()
    return options


def _told(given: Mapping[str, str], known: Mapping[str, str]) -> dict[str, str]:
    if not given or {name.lower() for name in given} >= _OF_A_TABLE:
        raise Invalid(NO_TABLES if given else f"there are no options. {NO_TABLES}")
    told = {}
    for name, value in given.items():
        if name.lower() not in known:
            raise Invalid(f"unknown option {name!r}: known are {', '.join(known.values())}")
        told[known[name.lower()]] = str(value).strip()
    return told


def _store(told: Mapping[str, str], other_way: str) -> str:
    store = told.get("store") or told.get("path", "")
    if not store:
        raise Invalid(f'name the store: .option("store", "/folder"), or {other_way}')
    store = store.removeprefix("file://")
    if "://" in store:
        return store.rstrip("/")
    if not os.path.isabs(store):
        raise Invalid(f"name the store by its whole path, not {store!r}: workers run elsewhere")
    return os.path.normpath(store)


def _view(told: Mapping[str, str], known: tuple[str, ...]) -> str:
    view = told.get("view", LOG)
    if view not in known:
        raise Invalid(f"view is one of {', '.join(known)}, not {view!r}")
    return view


def _shown(url: str) -> str:
    """A url without what may be secret in it."""
    return url.split("?", maxsplit=1)[0].rsplit("@", maxsplit=1)[-1]


def _bound(text: str, operator: str) -> Condition:
    if text.isdecimal():
        return Condition("seq", operator, int(text))
    try:
        return Condition("ts", operator, time_of(text))
    except Invalid:
        raise Invalid(
            f"{text!r} is neither a seq nor a time: write 12345 or 2026-11-16T08:00:00Z"
        ) from None


def _count(text: str) -> int:
    if not text.isdecimal():
        raise Invalid(f"maxRecordsPerTrigger is a number, not {text!r}")
    return int(text)
