"""Commands as text, in one of the many ways that a person could write them."""

from __future__ import annotations

import random
import re
from typing import Any

import msgspec

from strandline.query.language import parser
from strandline.query.language.ast import (
    Aggregate,
    BatchCommand,
    Command,
    CreateUser,
    Define,
    DeleteEvents,
    Explain,
    Flush,
    Forget,
    Grant,
    ListUsers,
    Metric,
    Name,
    Ping,
    Plot,
    Query,
    Remember,
    ReplayCommand,
    Revoke,
    RevokeKey,
    Show,
    ShowPermissions,
    Step,
    StoreEvent,
)
from strandline.query.language.ast_builder.tokens import RESERVED
from strandline.views.table.condition import And, Compare, Condition, In, Not, Or, Truth

KEYWORDS = frozenset(re.findall(r'"([A-Z]+)"i', parser._parser().source_grammar))
BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_.:@/%~-]*")
TYPE = re.compile(r"[A-Za-z]\w*(?:\s*\|\s*null)?")
CONSTANTS = {"TRUE", "FALSE", "NULL"}
UNITS_US = {
    86_400_000_000: ["d", "day", "DAYS"],
    3_600_000_000: ["h", "hours"],
    60_000_000: ["m", "MIN", "minutes"],
    1_000_000: ["s", "seconds"],
    1000: ["ms"],
    1: ["us", "microseconds"],
}


class Writer:
    """Writes commands. Owned by one thread."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def command(self, command: Command) -> str:
        return self._gap() + self._body(command) + self._chance.choice(["", ";", " ; # done"])

    def _body(self, command: Command) -> str:
        match command:
            case BatchCommand(commands=several):
                inside = self._spaced(";").join(self._body(each) for each in several)
                return f"{self._words('BATCH')} [ {inside} {self._chance.choice(['', ';'])}]"
            case Query():
                return self._query(command)
            case ReplayCommand():
                return self._replay(command)
            case Plot():
                return self._plot(command)
            case Define() | StoreEvent() | DeleteEvents():
                return self._about_events(command)
            case Explain(query=query):
                return self._join("EXPLAIN", "", self._body(query))
            case Remember():
                return self._remember(command)
            case Show(alias=alias) | Forget(alias=alias):
                return self._join(type(command).__name__.upper(), "", alias)
            case Flush() | Ping():
                return self._words(type(command).__name__.upper())
            case _:
                return self._about_users(command)

    # Questions

    def _query(self, query: Query) -> str:
        head = self._join(self._chance.choice(["QUERY", "FIND"]), "", self._event(query.event))
        steps = [self._step(step) for step in query.steps]
        clauses = [
            *self._common(query.context, query.since, query.using, query.returning),
            *(
                [self._join("LINKED BY", "", self._name(query.linked_by))]
                if query.linked_by
                else []
            ),
            *([self._join("WHERE", "", self._condition(query.where))] if query.where else []),
            *([self._listed(map(self._aggregate, query.aggregates))] if query.aggregates else []),
            *([self._words(f"PER {query.per}")] if query.per else []),
            *([self._join("BY", "", self._listed(map(self._name, query.by)))] if query.by else []),
            *([self._order(query)] if query.order_by else []),
            *([self._join("LIMIT", "", str(query.limit))] if query.limit is not None else []),
            *([self._join("OFFSET", "", str(query.offset))] if query.offset is not None else []),
        ]
        self._chance.shuffle(clauses)
        return self._gap().join([head, *steps, *clauses])

    def _replay(self, replay: ReplayCommand) -> str:
        head = [self._words("REPLAY"), *([self._event(replay.event)] if replay.event else [])]
        clauses = self._common(replay.context, replay.since, replay.using, replay.returning)
        self._chance.shuffle(clauses)
        return self._gap().join([*head, *clauses])

    def _common(self, context: Any, since: Any, using: Any, returning: Any) -> list[str]:
        clauses = []
        if context is not None:
            clauses.append(self._join("FOR", "", self._text(context)))
        if since is not None:
            told = self._quoted(since) if isinstance(since, str) else repr(since)
            clauses.append(self._join("SINCE", "", told))
        if using is not None:
            quoted = using.text.upper() == "TIME" and not using.event
            words = "USING" if quoted else self._chance.choice(["USING", "USING TIME"])
            clauses.append(self._join(words, "", self._name(using)))
        if returning is not None:
            inside = self._listed(map(self._column, returning))
            clauses.append(f"{self._words('RETURN')}{self._gap()}[{inside}]")
        return clauses

    def _step(self, step: Step) -> str:
        parts = [self._words(f"{step.direction.upper()} BY"), self._event(step.event)]
        if step.within_us is not None:
            parts += [self._words("WITHIN"), self._duration(step.within_us)]
        return self._gap().join(parts)

    def _order(self, query: Query) -> str:
        assert query.order_by is not None
        direction = "DESC" if query.descending else self._chance.choice(["", "ASC"])
        parts = [self._words("ORDER BY"), self._name(query.order_by), self._words(direction)]
        return self._gap().join(filter(None, parts))

    def _aggregate(self, aggregate: Aggregate) -> str:
        if aggregate.field is None:
            return self._words("COUNT")
        words = aggregate.function.replace("_", " ").upper()
        words = self._chance.choice(["TOTAL", "SUM"]) if words == "TOTAL" else words
        return self._join(words, "", self._name(aggregate.field))

    def _remember(self, command: Remember) -> str:
        parts = [self._words("REMEMBER"), self._body(command.query), self._words("AS")]
        keeps = []
        if command.rows_max is not None:
            keeps.append(self._words("KEEP") + f" {command.rows_max} " + self._words("ROWS"))
        if command.age_max_us is not None:
            keeps.append(self._words("KEEP") + " " + self._duration(command.age_max_us, text=False))
        self._chance.shuffle(keeps)
        return self._gap().join([*parts, command.alias, *keeps])

    def _condition(self, condition: Condition) -> str:
        match condition:
            case Truth(field, event):
                return self._name(Name(field, -1, event))
            case Compare(field, op, value, event):
                gap = self._chance.choice(["", " ", "\n"])
                return f"{self._name(Name(field, -1, event))}{gap}{op}{gap}{self._value(value)}"
            case In(field, values, event):
                inside = self._listed(map(self._value, values))
                return self._join(self._name(Name(field, -1, event)), "IN", f"({inside})")
            case Not(of):
                return self._join("NOT", "", self._within(of, And, Or))
            case And(of):
                return self._spaced("AND").join(self._within(each, Or) for each in of)
            case Or(of):
                return self._spaced("OR").join(self._within(each) for each in of)

    def _within(self, condition: Condition, *weaker: type) -> str:
        text = self._condition(condition)
        needed = isinstance(condition, weaker)
        return f"({text})" if needed or self._chance.random() < 0.2 else text

    # Events

    def _about_events(self, command: Define | StoreEvent | DeleteEvents) -> str:
        event = self._event(command.event)
        match command:
            case Define(fields=fields, version=version):
                pairs = [f"{self._key(name)}: {self._type(told)}" for name, told in fields.items()]
                words = [self._words("DEFINE"), event]
                words += [] if version is None else [self._words("AS"), str(version)]
                return self._gap().join(
                    [*words, self._words("FIELDS"), f"{{{self._listed(pairs)}}}"]
                )
            case StoreEvent(context=context, payload=payload):
                head = self._join("STORE", "", event)
                body = self._join("PAYLOAD", "", payload.decode())
                return self._gap().join([head, self._words("FOR"), self._text(context), body])
            case DeleteEvents(context=context, where=where):
                clauses = []
                if context is not None:
                    clauses.append(self._join("FOR", "", self._text(context)))
                if where is not None:
                    clauses.append(self._join("WHERE", "", self._condition(where)))
                self._chance.shuffle(clauses)
                return self._gap().join([self._words("DELETE"), event, *clauses])

    def _key(self, name: str) -> str:
        bare = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) and self._chance.random() < 0.5
        return name if bare else self._quoted(name)

    def _type(self, told: str | list[str]) -> str:
        if isinstance(told, list):
            return msgspec.json.encode(told).decode()
        bare = TYPE.fullmatch(told) and self._chance.random() < 0.5
        return told if bare or told.endswith("] | null") else self._quoted(told)

    # Charts and users

    def _plot(self, plot: Plot) -> str:
        first, *others = plot.metrics
        parts = [self._words("PLOT"), self._metric(first)]
        for metric in others:
            parts += [self._words("VS"), self._metric(metric)]
        clauses = []
        if plot.breakdown:
            inside = self._listed(map(self._name, plot.breakdown))
            clauses.append(self._join("BREAKDOWN BY", "", inside))
        if plot.over:
            field = f"({self._name(plot.over_field)})" if plot.over_field else ""
            clauses.append(self._words(f"OVER {plot.over}") + field)
        if plot.top is not None:
            by = self._join(" BY", "", self._name(plot.top_by)) if plot.top_by else ""
            clauses.append(self._words("TOP") + f" {plot.top}{by}")
        self._chance.shuffle(clauses)
        return self._gap().join([*parts, *clauses])

    def _metric(self, metric: Metric) -> str:
        function = {"count_unique": "UNIQUE"}.get(
            metric.aggregate.function, metric.aggregate.function.upper()
        )
        field = metric.aggregate.field
        parts = [self._words(function) + (f"({self._name(field)})" if field else "")]
        parts += [self._words("OF"), self._event(metric.event)]
        if metric.then:
            parts += [self._chance.choice(["->", "THEN", "then"]), self._event(metric.then)]
        if metric.where:
            parts += [self._words("FILTER"), self._condition(metric.where)]
        return self._gap().join(parts)

    def _about_users(self, command: Command) -> str:
        match command:
            case CreateUser(user=user, key=key, roles=roles):
                options = []
                if key is not None:
                    options.append(self._join("WITH KEY", "", self._quoted(key)))
                if roles:
                    inside = self._listed(map(self._text, roles))
                    options.append(self._words("WITH ROLES") + f"[{inside}]")
                self._chance.shuffle(options)
                return self._gap().join([self._words("CREATE USER"), self._text(user), *options])
            case RevokeKey(user=user):
                return self._join("REVOKE KEY", "", self._text(user))
            case ListUsers():
                return self._words("LIST USERS")
            case ShowPermissions(user=user):
                return self._join("SHOW PERMISSIONS FOR", "", self._text(user))
            case Grant() | Revoke():
                verb = type(command).__name__.upper()
                end = "TO" if verb == "GRANT" else "FROM"
                parts = [self._words(verb), self._listed(map(self._words, command.permissions))]
                parts += [self._words("ON"), self._listed(map(self._event, command.events))]
                parts += [self._words(end), self._text(command.user)]
                return self._gap().join(filter(None, parts))
        raise AssertionError(command)

    # Words

    def _event(self, name: Name) -> str:
        quoted = name.text.upper() in KEYWORDS or self._chance.random() < 0.1
        return f"`{name.text}`" if quoted else name.text

    def _name(self, name: Name) -> str:
        quoted = name.text.upper() in KEYWORDS or self._chance.random() < 0.1
        field = f"`{name.text}`" if quoted else name.text
        return f"{name.event}.{field}" if name.event else field

    def _column(self, name: Name) -> str:
        plain = f"{name.event}.{name.text}" if name.event else name.text
        return self._quoted(plain) if self._chance.random() < 0.2 else self._name(name)

    def _text(self, text: str) -> str:
        """Where no keyword can stand."""
        bare = BARE.fullmatch(text) and self._chance.random() < 0.7
        return text if bare else self._quoted(text)

    def _value(self, value: Any) -> str:
        if value is None or isinstance(value, bool):
            word = {None: "null", True: "true", False: "false"}[value]
            return self._chance.choice([word, word.upper()])
        if not isinstance(value, str):
            return repr(value)
        return self._quoted(value) if value.upper() in RESERVED | CONSTANTS else self._text(value)

    def _quoted(self, text: str) -> str:
        return msgspec.json.encode(text).decode()

    def _duration(self, micros: int, *, text: bool = True) -> str:
        unit_us = next(unit for unit in UNITS_US if micros % unit == 0)
        unit = self._chance.choice(UNITS_US[unit_us])
        plain = f"{micros // unit_us}{self._chance.choice(['', ' '])}{unit}"
        return f'"{plain}"' if text and self._chance.random() < 0.2 else plain

    def _words(self, words: str) -> str:
        told = [
            self._chance.choice([str.upper, str.lower, str.title])(each) for each in words.split()
        ]
        return self._gap().join(told)

    def _join(self, first: str, middle: str, last: str) -> str:
        if first.strip().isupper() and first.strip().split()[0] in KEYWORDS:
            lead = " " * first.startswith(" ")
            first = lead + self._words(first)
        return self._gap().join(filter(None, [first, self._words(middle), last]))

    def _spaced(self, word: str) -> str:
        return self._gap() + (self._words(word) if word.isalpha() else word) + self._gap()

    def _listed(self, parts: Any) -> str:
        return self._chance.choice([",", ", ", " ,\n"]).join(parts)

    def _gap(self) -> str:
        return self._chance.choice([" ", " ", "  ", "\n", "\t", " # a word\n", "\r\n "])
