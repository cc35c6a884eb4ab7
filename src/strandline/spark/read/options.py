"""Options of reads and writes, ``.format("strandline").option(…)``, and their validation.

| option of a read | |
|---|---|
| `store`, or the path of `load` | folder of the store, or the URL of its lake |
| `url`, `token` | a server instead of a store; default: the token of the environment |
| `view` | the view to read: `log`, or a view of the topic |
| `measurement` | of `view=metrics`: one measurement, with a column for each tag and field |
| `topic` | a name, names separated by commas, or patterns with `*` |
| `lake` | location of the lake, if it is not in the folder of the store |
| `reservoir` | location of saved views, if not in the folder of the store (`views.url`) |
| `columns` | names separated by commas; default: all |
| `from`, `to` | the first record, and the end, exclusive: a seq, or a time in ISO format |
| `as_of` | records that existed at a position (of ``position``) or a time |
| `maxRecordsPerTrigger` | stream: maximum of records in a batch |
| `onLoss` | stream: `fail` or `report` |
| `pinned` | internal: the position of the hot part of ``table`` |

| option of a write | |
|---|---|
| `store` or path, `topic`, `lake` | as above; one topic, of a store in a folder |
| `view` | the view that rows are written through: `log`, or a view of the topic |
| `onInvalid` | `fail`, or the topic for rows that the view rejects |
| `measurement`, `tags` | of `view=metrics`: the measurement, and the columns that are tags |
| `createTopic` | `true` creates a topic that does not exist |
| `writeId` | batch: the identity of the write, which makes a repetition a no-op |
| `patience` | seconds to wait until the writer of the store has appended the rows |
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import msgspec

from strandline.errors import Invalid
from strandline.pipelines.delivery_client import WAIT_S_MAX
from strandline.pipelines.lake_selection import is_pattern
from strandline.pipelines.splits import record_schema
from strandline.pipelines.splits.predicates import Condition, time_of
from strandline.pipelines.splits.snapshot_position import TopicOffsets
from strandline.records import check_topic_name

FORMAT = "strandline"
LOG = "log"
READ_VIEWS = (LOG, "table", "kv", "kv_history", "queue", "dead", "series", "metrics")
"""Values of ``view`` in a read."""
WRITE_VIEWS = (LOG, "table", "kv", "queue", "series", "metrics")
"""Values of ``view`` in a write."""
FAIL = "fail"
TOKEN_VARIABLE = "STRANDLINE_TOKEN"  # noqa: S105 - the name of a variable

_READ_NAMES = {
    name.lower(): name
    for name in (
        *("store", "path", "topic", "lake", "reservoir", "columns", "from", "to", "as_of"),
        *("view", "measurement", "url", "token", "maxRecordsPerTrigger", "onLoss", "pinned"),
    )
}

_WRITE_NAMES = {
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
"""Properties of a table that Spark passes as options while it creates one."""
_OF_SPARK = frozenset({"checkpointlocation", "queryname", "outputmode"})
"""Options of Spark for a stream, which it also passes to the sink."""


class Secret(msgspec.Struct, frozen=True):
    """A token. Its text is not in its repr."""

    value: str = ""

    def __repr__(self) -> str:
        return "Secret(…)"


class ReadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of one read."""

    store: str = ""
    """Its folder, or the URL of its lake; empty for a server."""
    url: str = ""
    token: Secret = Secret()
    view: str = LOG
    measurement: str = ""
    topics: tuple[str, ...]
    """Names and patterns."""
    many: bool
    """Whether the read has several topics, and a column for their names."""
    lake: str = ""
    reservoir: str = ""
    columns: tuple[str, ...]
    """Of records; for a view the requested columns, empty for all."""
    begin: str = ""
    end: str = ""
    as_of: str = ""
    on_loss: str = ""
    records_max: int = 0
    pinned: str = ""

    @property
    def is_remote(self) -> bool:
        """Whether only the lake is read, without a folder of the store."""
        return "://" in self.store

    def conditions(self) -> tuple[Condition, ...]:
        """``from``, ``to`` and a time in ``as_of`` as conditions of rows."""
        conditions = []
        if self.begin:
            conditions.append(_bound(self.begin, ">="))
        if self.end:
            conditions.append(_bound(self.end, "<"))
        if self.as_of and not self.as_of.startswith("{"):
            conditions.append(Condition("ts", "<=", time_of(self.as_of)))
        return tuple(conditions)

    def offsets(self) -> TopicOffsets | None:
        """The position in ``as_of``."""
        return TopicOffsets.decode(self.as_of) if self.as_of.startswith("{") else None


class WriteOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of one write."""

    store: str
    topic: str
    lake: str = ""
    view: str = LOG
    on_invalid: str = FAIL
    measurement: str = ""
    tags: tuple[str, ...] = ()
    create: bool = False
    write_id: str = ""
    wait_s_max: float = WAIT_S_MAX


def parse_write(raw: Mapping[str, str]) -> WriteOptions:
    """The options of a write, or ``Invalid`` with the name of the wrong one."""
    options = _known_options(
        {name: raw[name] for name in raw if name.lower() not in _OF_SPARK}, _WRITE_NAMES
    )
    store = _store(options, 'save("/folder")')
    if "://" in store:
        raise Invalid(
            f"rows are delivered to the folder of a store, not to {_without_secrets(store)}: "
            "name the folder as store, and the URL as lake"
        )
    topic = options.get("topic", "")
    if not topic or "," in topic or is_pattern(topic):
        raise Invalid('name one topic to write to: .option("topic", "orders")')
    create = options.get("createTopic", "false").lower()
    if create not in ("true", "false"):
        raise Invalid(f"createTopic is true or false, not {create!r}")
    patience = options.get("patience", str(WAIT_S_MAX))
    if not patience.replace(".", "", 1).isdecimal():
        raise Invalid(f"patience is a number of seconds, not {patience!r}")
    view = _view(options, WRITE_VIEWS)
    on_invalid = options.get("onInvalid", FAIL)
    if on_invalid != FAIL and view == LOG:
        raise Invalid("onInvalid is for writes through a view: every row is a record of a log")
    if on_invalid == topic:
        raise Invalid(f"onInvalid names the topic {topic!r} itself: name another one")
    tags = tuple(part.strip() for part in options.get("tags", "").split(",") if part.strip())
    if (view == "metrics") != bool(options.get("measurement")) or (tags and view != "metrics"):
        raise Invalid('with view=metrics, and only then, set .option("measurement", "cpu")')
    return WriteOptions(
        store=store,
        topic=check_topic_name(topic),
        lake=options.get("lake", ""),
        view=view,
        on_invalid=on_invalid if on_invalid == FAIL else check_topic_name(on_invalid),
        measurement=options.get("measurement", ""),
        tags=tags,
        create=create == "true",
        write_id=options.get("writeId", ""),
        wait_s_max=float(patience),
    )


def parse(raw: Mapping[str, str]) -> ReadOptions:
    """The options of a read, or ``Invalid`` with the name of the wrong one."""
    values = _known_options(raw, _READ_NAMES)
    url = values.get("url", "")
    store = "" if url else _store(values, 'load("/folder")')
    if url and any(values.get(name) for name in ("store", "path", "lake", "reservoir")):
        raise Invalid("url names a server: leave out store, lake and reservoir")
    if "://" in store and values.get("lake"):
        raise Invalid(
            f"{_without_secrets(store)} is the lake already: leave lake out, or name the folder"
        )
    view = _view(values, READ_VIEWS)
    if values.get("measurement") and view != "metrics":
        raise Invalid("measurement is for view=metrics")
    topics = tuple(part.strip() for part in values.get("topic", "").split(",") if part.strip())
    if not topics:
        raise Invalid('name the topic: .option("topic", "orders"), "a,b" or "eu-*" for several')
    many = len(topics) > 1 or any(is_pattern(topic) for topic in topics)
    on_loss = values.get("onLoss", "")
    if on_loss not in ("", "fail", "report"):
        raise Invalid(f"onLoss is fail or report, not {on_loss!r}")
    requested = (
        [part.strip() for part in values["columns"].split(",")] if "columns" in values else None
    )
    if many and view != LOG:
        raise Invalid(f"a read with view={view} is of one topic: read several one by one")
    if view == LOG:
        selected = record_schema.select_columns(requested, many=many, lost=on_loss == "report")
    else:
        selected = tuple(requested or ())
    options = ReadOptions(
        store=store,
        url=url,
        token=Secret(values.get("token") or (os.environ.get(TOKEN_VARIABLE, "") if url else "")),
        view=view,
        measurement=values.get("measurement", ""),
        topics=topics,
        many=many,
        lake=values.get("lake", ""),
        reservoir=values.get("reservoir", "").rstrip("/"),
        columns=selected,
        begin=values.get("from", ""),
        end=values.get("to", ""),
        as_of=values.get("as_of", ""),
        on_loss=on_loss,
        records_max=_count(values.get("maxRecordsPerTrigger", "0")),
        pinned=values.get("pinned", ""),
    )
    if options.begin not in ("earliest", "latest"):
        options.conditions()
        options.offsets()
    return options


def _known_options(raw: Mapping[str, str], known: Mapping[str, str]) -> dict[str, str]:
    if not raw or {name.lower() for name in raw} >= _OF_A_TABLE:
        raise Invalid(NO_TABLES if raw else f"there are no options. {NO_TABLES}")
    values = {}
    for name, value in raw.items():
        if name.lower() not in known:
            raise Invalid(f"unknown option {name!r}: known are {', '.join(known.values())}")
        values[known[name.lower()]] = str(value).strip()
    return values


def _store(values: Mapping[str, str], alternative: str) -> str:
    store = values.get("store") or values.get("path", "")
    if not store:
        raise Invalid(f'name the store: .option("store", "/folder"), or {alternative}')
    store = store.removeprefix("file://")
    if "://" in store:
        return store.rstrip("/")
    if not os.path.isabs(store):
        raise Invalid(f"name the store by its absolute path, not {store!r}: workers run elsewhere")
    return os.path.normpath(store)


def _view(values: Mapping[str, str], known: tuple[str, ...]) -> str:
    view = values.get("view", LOG)
    if view not in known:
        raise Invalid(f"view is one of {', '.join(known)}, not {view!r}")
    return view


def _without_secrets(url: str) -> str:
    """A URL without parts that may be secret."""
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
