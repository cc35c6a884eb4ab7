"""The remembered queries of a store: REMEMBER, SHOW, FORGET.

    look = remembered.begin("big")            what is stored, and where the tables stand
    remembered.commit(look, answers)          what is new, if nobody else was quicker

These two are the only way in which stored state changes, for SHOW as for engines elsewhere; a
process that may not append has ``draft``, which is a commit on paper. SHOW
answers with what it has put together even if another was quicker with storing it: that answer is
right as of the tables it has read. So two SHOWs at once neither wait for each other nor see a row
twice, and one on a store that is open read-only works just as well.

A query is a topic, ``remembered:<alias>`` (result_log.py), as durable as its table. There is no
list
of queries besides. A topic without a manifest is what a crash has left of a REMEMBER: it is not
listed and not shown, the next REMEMBER of the alias uses it, and FORGET deletes it.
"""

from __future__ import annotations

import contextlib
import difflib
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Protocol

import pyarrow as pa

from strandline.errors import Conflict, Invalid, NotFound, StrandlineError, UnknownTopic
from strandline.log.progress import Progress, silent
from strandline.log.topic.topic import Topic
from strandline.platform.clock import Clock
from strandline.query.execute.arrow_snapshot import ArrowSnapshot
from strandline.query.execute.duckdb_engine import Engine
from strandline.query.execute.executor import Answering, default_engine, run
from strandline.query.execute.result import Result
from strandline.query.language.ast import Remember
from strandline.query.language.bound_ast import Bound
from strandline.query.materialized.change_feed import Change, Follower
from strandline.query.materialized.describe import Description, description_of
from strandline.query.materialized.incremental_plan import kept_schema, looking_at_rows, shape_of
from strandline.query.materialized.manifest import Keep, Manifest, Run, TableMark
from strandline.query.materialized.partial_aggregates import States, state_of, without_nothing
from strandline.query.materialized.refresh import Definition, TableSnapshot, Visit
from strandline.query.materialized.result_log import (
    FRAME_BYTES,
    Base,
    Draft,
    FramesGone,
    Journal,
    Piece,
)
from strandline.query.materialized.retention import check_keep
from strandline.views.table.snapshot import Snapshot

PREFIX = "remembered:"
_GLANCE_S = 0.05
"""How long to wait for one of several tables, before looking at the next."""
_ALIAS = re.compile(r"[A-Za-z0-9_-]{1,128}")


class Topics(Protocol):
    """The topics of a store."""

    @property
    def readonly(self) -> bool: ...

    def topic(self, name: str, **options: object) -> Topic: ...

    def existing_topic(self, name: str) -> Topic: ...

    def delete_topic(self, name: str, *, if_empty: bool = False) -> bool: ...

    def topics(self, prefix: str = "") -> list[str]: ...


Bind = Callable[[str], Bound]
"""Reads the text of a query and checks it against the schemas of now."""


class Remembered:
    """The remembered queries of one store. Safe from many threads."""

    def __init__(
        self,
        topics: Topics,
        clock: Clock,
        *,
        snapshots: Callable[[str], TableSnapshot],
        bind: Bind,
        engine: Engine | None = None,
        answering: Answering | None = None,
        frame_bytes: int = FRAME_BYTES,
    ) -> None:
        """``answering`` answers questions over news; the engine does, unless told otherwise."""
        self._topics = topics
        self._clock = clock
        self._snapshots = snapshots
        self._bind = bind
        self._engine = engine or default_engine()
        self._answering = answering or self._run
        self._frame_bytes = frame_bytes

    def remember(self, command: Remember, *, progress: Progress = silent) -> Description:
        """Ask a query once and keep what it finds under an alias, from now on."""
        keep = Keep(rows_max=command.rows_max, age_max_us=command.age_max_us)
        wanted = Definition(alias=_checked(command.alias), text=command.text, keep=keep)
        bound = self._bind(wanted.text)
        check_keep(keep, bound)
        event = self._topics.existing_topic(bound.events[0].name)
        topic = self._topic_for(wanted.alias, event.config.durability)
        try:
            journal = self._journal(topic)
            look = self._look(wanted, journal, journal.newest())
            if look.base.manifest is not None:
                raise _taken(wanted.alias)
            self.commit(look, self.answers(look, progress))
        except Conflict as error:
            raise _taken(wanted.alias) from error
        except BaseException:
            with contextlib.suppress(StrandlineError):  # what went wrong before is to be told
                self._topics.delete_topic(topic.name, if_empty=True)
            raise
        return self.describe(wanted.alias)

    def show(self, alias: str, *, progress: Progress = silent) -> Result:
        """What was remembered, and what is new since: the query's answer as of now."""
        look = self.begin(alias)
        while True:
            try:
                answers = self.answers(look, progress)
                result = self._result(look, answers)
                if look.has_news and not self._topics.readonly:
                    self._try_commit(look, answers)
            except FramesGone:
                look = self.look_without(look)
                continue
            return result

    def refresh(
        self, alias: str, *, anew: bool = False, progress: Progress = silent
    ) -> Description:
        """Store what is new since the last look; with ``anew``, all of it as if it were new."""
        look = self.begin(alias)
        while True:
            if anew:
                look.count_all_as_news()
            try:
                if look.has_news:
                    self.commit(look, self.answers(look, progress))
            except Conflict:
                look = self.begin(alias)
                continue
            except FramesGone:
                look = self.look_without(look)
                continue
            return self.describe(alias)

    def forget(self, alias: str) -> None:
        """Delete a remembered query with all that is stored of it, an unfinished one as well."""
        if not self._topics.delete_topic(PREFIX + _checked(alias)):
            raise self._unknown(alias)

    def begin(self, alias: str) -> Visit:
        """What is stored of a query, where its tables stand, and what is to be asked of news."""
        journal, base, manifest = self._find(alias)
        wanted = Definition(alias=alias, text=manifest.text, keep=manifest.keep)
        return self._look(wanted, journal, base)

    def commit(self, look: Visit, answers: Sequence[pa.Table]) -> Base:
        """Store the answers to a look's questions, in their order, as of its marks.

        Conflict when somebody else has stored news since the look began: nothing is changed then.
        """
        return look.journal.commit(look.base, *_written(look, answers))

    def draft(self, look: Visit, answers: Sequence[pa.Table]) -> Draft:
        """What ``commit`` would append, for whoever may append it."""
        return look.journal.draft(look.base, *_written(look, answers))

    def list(self) -> list[Description]:
        """All remembered queries, by alias."""
        names = [name[len(PREFIX) :] for name in self._topics.topics(PREFIX)]
        found = [self._newest(alias) for alias in names]
        return [self._described(base.manifest) for base in found if base and base.manifest]

    def describe(self, alias: str) -> Description:
        """A remembered query: what it is, how much is stored, and how far it has come."""
        return self._described(self._find(alias)[2])

    def follow(
        self, alias: str, after: str = "", *, timeout_s: float | None = None
    ) -> Iterator[Change]:
        """What changes in the answer of a query, from a cursor on, until nothing has been appended
        to its tables for ``timeout_s``. Without a cursor all rows are told first."""
        look = self.following(alias, after)
        while True:
            heads = self.heads(alias)
            change = look()
            if change is not None:
                yield change
            if not self._wait_for_news(heads, timeout_s):
                return

    def following(self, alias: str, after: str = "") -> Callable[[], Change | None]:
        """The same for whoever waits elsewhere: each call tells what has changed since the last,
        None for nothing, and does not wait. Owned by one thread at a time."""
        return partial(self._change, alias, Follower(after))

    def heads(self, alias: str) -> dict[str, int]:
        """Where the logs of a query's tables end: when one is longer there may be a change."""
        events = self._find(alias)[2].marks
        return {event: self._topics.existing_topic(event).head_seq for event in events}

    def _change(self, alias: str, follower: Follower) -> Change | None:
        look = self.begin(alias)
        while True:
            try:
                answers = self.answers(look, silent)
                fresh = _states(look, answers)
                news = fresh[0] if fresh else None
                seen = follower.see(look, news, partial(self._result, look, answers))
                mark = 0 if look.has_news else look.base.cursor
                if look.has_news and not self._topics.readonly:
                    mark = self.commit(look, answers).cursor
            except Conflict:
                look = self.begin(alias)
                continue
            except FramesGone:
                look = self.look_without(look)
                continue
            return follower.go_on(seen, mark)

    def _wait_for_news(self, heads: dict[str, int], timeout_s: float | None) -> bool:
        """Wait until one of the logs is longer; False when it takes too long."""
        if len(heads) == 1:
            ((event, head),) = heads.items()
            return self._topics.existing_topic(event).wait_for(head, timeout_s)
        begun = self._clock.monotonic()
        while True:
            for event, head in heads.items():
                glance_s = _GLANCE_S if timeout_s is None else min(_GLANCE_S, timeout_s)
                if self._topics.existing_topic(event).wait_for(head, glance_s):
                    return True
            if timeout_s is not None and self._clock.monotonic() - begun >= timeout_s:
                return False

    def _described(self, manifest: Manifest) -> Description:
        behind = sum(self._behind(event, mark) for event, mark in manifest.marks.items())
        return description_of(manifest, behind)

    def _behind(self, event: str, mark: TableMark) -> int:
        try:
            return max(0, self._topics.existing_topic(event).head_seq - mark.position)
        except UnknownTopic:
            return 0

    def answers(self, look: Visit, progress: Progress = silent) -> Sequence[pa.Table]:
        """The answers to a look's questions, as of its marks."""
        if not look.has_news:
            return []
        if look.is_complete:
            return [look.nothing(0)]
        news = look.news(progress)
        answers = [self._answering(question, news.__getitem__) for question in look.questions]
        return [answer.arrow() for answer in answers]

    def _run(self, question: Bound, tables: Callable[[str], Snapshot]) -> Result:
        return run(question, tables, engine=self._engine)

    def _try_commit(self, look: Visit, answers: Sequence[pa.Table]) -> None:
        try:
            self.commit(look, answers)
        except (Conflict, UnknownTopic):
            pass  # somebody else was quicker, or has forgotten the query meanwhile

    def _result(self, look: Visit, answers: Sequence[pa.Table]) -> Result:
        fresh: Sequence[pa.Table | None] = _states(look, answers)
        if not fresh:
            fresh = [None] * len(look.shape.parts)
        whole = [look.whole(part, state) for part, state in enumerate(fresh)]
        bound = look.shape.bound
        match look.shape.kind:
            case "whole":
                return Result(whole[0])
            case "groups":
                return Result(look.states.finish(look.shape, whole))
            case "rows":
                event = bound.events[0].name
                position = look.marks[event].position
                rows = ArrowSnapshot(event, kept_schema(bound), whole, position=position)
                return self._run(looking_at_rows(bound), lambda _: rows)

    def _look(self, wanted: Definition, journal: Journal, base: Base) -> Visit:
        while True:
            bound = self._bind(wanted.text)
            names = dict.fromkeys(event.name for event in bound.events)
            found = {name: self._table(name, base.manifest) for name in names}
            if all(found[event.name][0].schema == event.schema for event in bound.events):
                break  # else a new version came between
        tables = {name: table for name, (table, _) in found.items()}
        marks = {name: mark for name, (_, mark) in found.items()}
        shape = shape_of(bound, wanted.keep)
        return Visit(
            wanted, journal, base, shape, tables, marks, States(self._engine), self._clock.now_us()
        )

    def look_without(self, before: Visit) -> Visit:
        """Another look, since frames of the one before are gone: a commit came between that has
        what we want; or there was none, and they are lost (a repair may give some up)."""
        look = self.begin(before.definition.alias)
        if look.base.cursor == before.base.cursor:
            look.count_all_as_news()
        return look

    def _table(self, name: str, old: Manifest | None) -> tuple[TableSnapshot, TableMark]:
        """A table, and where it stands."""
        while True:
            topic = self._topics.existing_topic(name)
            epoch = topic.epoch
            table = self._snapshots(name)
            if self._topics.existing_topic(name).identity == topic.identity:
                break  # else it was deleted and made anew between
        before = old.marks.get(name) if old else None
        ts = before.ts if before else 0
        if before is None or before.position != table.position:
            ts = max([ts, *(record.ts for record in topic.pick([table.position]).records)])
        mark = TableMark(
            position=table.position,
            ts=ts,
            deletions=table.deletions,
            schema_version=table.schema.version,
            identity=topic.identity,
            epoch=epoch,
        )
        return table, mark

    def _find(self, alias: str) -> tuple[Journal, Base, Manifest]:
        try:
            journal = self._journal(self._topics.existing_topic(PREFIX + _checked(alias)))
            base = journal.newest()
        except UnknownTopic:
            base = None
        if base is None or base.manifest is None:
            raise self._unknown(alias)
        return journal, base, base.manifest

    def _topic_for(self, alias: str, durability: str) -> Topic:
        """The topic of a new query. A REMEMBER that a crash ended may have left one without a mark:
        it is used, and the first commit deletes the frames in it."""
        base = self._newest(alias)
        if base is None:
            return self._topics.topic(PREFIX + alias, durability=durability)
        if base.manifest is not None:
            raise _taken(alias)
        topic = self._topics.existing_topic(PREFIX + alias)
        if topic.config.durability != durability:
            topic.alter(durability=durability)
        return topic

    def _newest(self, alias: str) -> Base | None:
        try:
            return self._journal(self._topics.existing_topic(PREFIX + alias)).newest()
        except UnknownTopic:
            return None

    def _journal(self, topic: Topic) -> Journal:
        return Journal(topic, frame_bytes=self._frame_bytes)

    def _unknown(self, alias: str) -> NotFound:
        names = [each.alias for each in self.list()]
        near = difflib.get_close_matches(alias, names, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names) or 'none'}"
        return NotFound(f"there is no remembered query {alias!r}: {hint}")


def _states(look: Visit, answers: Sequence[pa.Table]) -> list[pa.Table]:
    """Answers as states, without what says nothing."""
    if not answers:
        return []
    parts = look.shape.parts
    fresh = [state_of(part, each) for part, each in zip(parts, answers, strict=True)]
    if look.shape.kind == "groups" and not look.is_anew:
        fresh[0] = without_nothing(look.shape, fresh[0])
    return fresh


def _written(
    look: Visit, answers: Sequence[pa.Table]
) -> tuple[list[Piece], Callable[[tuple[Run, ...]], Manifest]]:
    """What a commit writes, and what closes it."""
    fresh = _states(look, answers)
    runs: list[Run] = []
    pieces: list[Piece] = []
    for part, state in enumerate(fresh):
        staying, written = look.pieces(part, state)
        runs += staying
        pieces += written
    news = fresh[0].num_rows
    return pieces, lambda added: look.closing((*runs, *added), news)


def _checked(alias: str) -> str:
    if not _ALIAS.fullmatch(alias):
        raise Invalid(f"{alias!r} is no alias: use letters, digits, _ and -, at most 128")
    return alias


def _taken(alias: str) -> Conflict:
    return Conflict(f"there is a remembered query {alias!r} already: SHOW it, or FORGET it first")
