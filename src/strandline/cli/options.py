"""Options that commands share: store or server, output format, times and sizes.

A dataclass here is a group of options that several commands share; cyclopts adds its fields to the
options of the command.
"""

from __future__ import annotations

import dataclasses
import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal

from cyclopts import Parameter

from strandline.cli.target import DEFAULT_STORE, ResolvedTarget, resolve_target
from strandline.config.settings import GIB, KIB, MIB, Discard, Durability
from strandline.errors import Invalid

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

OutputFormat = Literal["table", "json", "jsonl", "csv", "arrow"]
OUTPUT_FORMATS_HELP = "A table, one JSON value, one JSON value per line, CSV, or an Arrow stream."
Flag = Annotated[bool, Parameter(negative="", show_default=False)]
_UNITS_MS = {
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
}
_UNITS_BYTES = {
    "": 1,
    "b": 1,
    "kib": KIB,
    "mib": MIB,
    "gib": GIB,
    "k": KIB,
    "m": MIB,
    "g": GIB,
    "kb": 1000,
    "mb": 1000**2,
    "gb": 1000**3,
}
_QUANTITY = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")


@Parameter(name="*", group="Options of every command")
@dataclasses.dataclass(frozen=True, kw_only=True)
class Target:
    """Store or server, location of the lake, and output format."""

    context: Annotated[
        str | None,
        Parameter(metavar="NAME", help="A store or server that `strandline context add` named."),
    ] = None
    store_path: Annotated[
        str | None,
        Parameter(
            name="--store",
            metavar="PATH",
            help=f"Directory of the store. [default: STRANDLINE_STORE, or {DEFAULT_STORE}]",
        ),
    ] = None
    url: Annotated[
        str | None,
        Parameter(metavar="URL", help="A server instead: http://HOST:PORT. [STRANDLINE_URL]"),
    ] = None
    token_file: Annotated[
        str | None,
        Parameter(metavar="FILE", help="File with the token for the server. [STRANDLINE_TOKEN]"),
    ] = None
    lake_url: Annotated[
        str,
        Parameter(
            env_var="STRANDLINE_LAKE_URL",
            metavar="URL",
            show_default=False,
            help="Location of the lake: s3://bucket/prefix, …; default: `lake` in the store.",
        ),
    ] = ""
    output: Annotated[OutputFormat, Parameter(help=OUTPUT_FORMATS_HELP)] = "table"

    @property
    def resolved(self) -> ResolvedTarget:
        """The directory or server that flags, environment or context name."""
        return resolve_target(
            context=self.context,
            store=self.store_path,
            url=self.url,
            token_file=self.token_file,
        )

    @property
    def is_remote(self) -> bool:
        """Whether the target is a server."""
        return bool(self.resolved.url)

    @property
    def store(self) -> str:
        """The directory; an error when the target is a server."""
        place = self.resolved
        if place.url:
            error = Invalid(
                f"this command reads the files of a store, and {place.origin} names a server"
            )
            error.add_note("run it on the machine of the store, with its directory: --store DIR")
            raise error
        return place.store

    @property
    def views_location(self) -> str:
        """Location of the saved views, "" for the directory of the store."""
        return ""


@Parameter(name="*", group="Options of every command")
@dataclasses.dataclass(frozen=True, kw_only=True)
class ViewTarget(Target):
    """Store or server, location of lake and views, and output format."""

    views_url: Annotated[
        str,
        Parameter(
            env_var="STRANDLINE_VIEWS_URL",
            metavar="URL",
            show_default=False,
            help="Location of saved views: s3://bucket/prefix, …; default: `views` in the store.",
        ),
    ] = ""

    @property
    def views_location(self) -> str:
        return self.views_url


@Parameter(name="*", group="Fields of every record")
@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordFieldOptions:
    """Fields that all records of one append share."""

    key: Annotated[str | None, Parameter(help="Key, any text.")] = None
    tag: Annotated[str | None, Parameter(help="Tag, for deletes by tag.")] = None
    node: Annotated[
        str | None, Parameter(help="Process that appends; its reads can skip the record.")
    ] = None
    meta: Annotated[str | None, Parameter(help="Bytes beside the data, any text.")] = None


@Parameter(name="*", group="How the topic keeps records")
@dataclasses.dataclass(frozen=True, kw_only=True)
class TopicConfigOptions:
    """The configuration of a topic; an option that is not given changes nothing."""

    durability: Annotated[
        Durability | None, Parameter(help="What an acknowledged append survives. New topics: disk.")
    ] = None
    ttl: Annotated[
        str | None, Parameter(help="Remove older records: 500ms, 30s, 15m, 24h, 7d; 0 keeps them.")
    ] = None
    cap_records: Annotated[int | None, Parameter(help="Keep at most N records; 0: no cap.")] = None
    cap_bytes: Annotated[
        str | None, Parameter(help="Keep at most this size: 4096, 64KiB, 10MiB, 1GiB; 0: no cap.")
    ] = None
    discard: Annotated[
        Discard | None, Parameter(help="At a cap: remove old records, or reject the append.")
    ] = None
    idempotency_window: Annotated[
        str | None, Parameter(help="How long an idempotency key is stored. New topics: 2m.")
    ] = None
    dedupe_node: Annotated[
        bool | None, Parameter(help="Whether a reader that names its node skips its own records.")
    ] = None
    priority: Annotated[
        int | None,
        Parameter(help="Order of delivery under load: -1000 to 1000, higher first."),
    ] = None
    auto_priority: Annotated[
        bool | None, Parameter(help="Raise the priority while the topic has readers.")
    ] = None
    auto_create: Annotated[
        bool | None, Parameter(help="Whether an append over HTTP may create the topic again.")
    ] = None
    schema: Annotated[
        list[str] | None,
        Parameter(
            metavar="FIELD:TYPE",
            negative="--no-schema",
            help="A field of the JSON in data, as in price:f64; name all fields, one option each.",
        ),
    ] = None

    def changes(self) -> dict[str, object]:
        """The options that were given, by the names of ``TopicConfig``."""
        options = {
            "durability": self.durability,
            "ttl_ms": None if self.ttl is None else milliseconds(self.ttl),
            "cap_records": self.cap_records,
            "cap_bytes": None if self.cap_bytes is None else byte_count(self.cap_bytes),
            "discard": self.discard,
            "idempotency_window_ms": None
            if self.idempotency_window is None
            else milliseconds(self.idempotency_window),
            "dedupe_node": self.dedupe_node,
            "priority": self.priority,
            "auto_priority": self.auto_priority,
            "auto_create": self.auto_create,
            "schema": None if self.schema is None else fields_of(self.schema),
        }
        return {name: value for name, value in options.items() if value is not None}


@Parameter(name="*", group="Options of every command")
@dataclasses.dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """Output format of a command without a store."""

    output: Annotated[OutputFormat, Parameter(help=OUTPUT_FORMATS_HELP)] = "table"


DEFAULT_OUTPUT = OutputOptions()
TARGET = Target()
VIEW_TARGET = ViewTarget()
NO_FIELDS = RecordFieldOptions()
NO_TOPIC_OPTIONS = TopicConfigOptions()


def milliseconds(text: str) -> int:
    """A duration such as 500ms, 30s, 15m, 24h, 7d, or 0; any other number needs its unit."""
    if text.strip() == "0":
        return 0
    return _quantity(text, _UNITS_MS, "a duration", "500ms, 30s, 15m, 24h, 7d")


def fields_of(texts: list[str]) -> dict[str, str]:
    """A schema from texts such as ``price:f64``."""
    fields: dict[str, str] = {}
    for text in texts:
        name, colon, field_type = text.partition(":")
        if not colon or name.strip() in fields:
            raise Invalid(
                f"--schema {text!r}: write each field once, as NAME:TYPE, as in price:f64"
            )
        fields[name.strip()] = field_type.strip()
    return fields


def byte_count(text: str) -> int:
    """A size such as 64KiB or 10MiB; a bare number is bytes."""
    return _quantity(text, _UNITS_BYTES, "a size", "4096, 64KiB, 10MiB, 1GiB")


def microseconds(text: str) -> int:
    """A time as microseconds since 1970: ISO 8601 (UTC without an offset), or a number."""
    if text.lstrip("-").isdigit():
        return int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        raise Invalid(
            f"{text!r} is not a time: write it as 2026-03-28T14:05:00Z, or in microseconds"
        ) from error
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return (time - EPOCH) // timedelta(microseconds=1)


def _quantity(text: str, units: dict[str, int], expected: str, examples: str) -> int:
    match = _QUANTITY.fullmatch(text)
    unit = units.get(match[2].lower()) if match else None
    if match is None or unit is None:
        raise Invalid(f"{text!r} is not {expected}: write it as one of {examples}")
    return round(float(match[1]) * unit) if "." in match[1] else int(match[1]) * unit
