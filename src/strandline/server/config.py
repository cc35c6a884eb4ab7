"""A server's settings from a file, then the environment, then flags: the later wins. Pure.

    strandline.toml      [limits]                         STRANDLINE_LIMITS__BODY_BYTES_MAX=1000
                         body_bytes_max = 1000
                         [store.wal]                      STRANDLINE_STORE__WAL__SHARDS=2
                         shards = 2

In the environment two underscores stand between groups; lists are separated by commas, declared
pipelines are JSON. Every error names the place, the setting and what is allowed.
``STRANDLINE_STORE``, ``STRANDLINE_LAKE_URL`` and ``STRANDLINE_VIEWS_URL`` mean here what they mean
to every command.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple, get_args, get_origin

import msgspec

from strandline.config.pipeline_config import Declared
from strandline.config.settings import checked
from strandline.errors import Invalid
from strandline.pipelines.schedule.validation import check_declared
from strandline.server.settings import ServerSettings

PREFIX = "STRANDLINE_"
_SHORT_NAMES = {
    "STRANDLINE_STORE": "data",
    "STRANDLINE_LAKE_URL": "store.lake.url",
    "STRANDLINE_VIEWS_URL": "store.views.url",
}
# Names of the command line, which a server meets when both are set up in one place.
_OF_OTHERS = frozenset(
    f"{PREFIX}{name}" for name in ("URL", "TOKEN", "CONTEXT", "CONFIG", "BACKUPS", "DEBUG")
)
_POSITIVE = frozenset(
    {"receive_s_max", "idle_s_max", "body_bytes_max", "header_bytes_max", "headers_max"}
    | {"connections_max", "connections_per_address_max"}
    | {"query_s_max", "queries_per_token_max", "query_columns_max", "sql_bytes_max"}
    | {"sql_processes_max", "sql_memory_bytes_max"}
    | {"query_bytes_max", "query_json_bytes_max", "query_row_bytes_max"}
)
_LOG_FORMATS = ("text", "json")
_KINDS: dict[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    tuple[str, ...]: "a list of texts",
    tuple[Declared, ...]: "a list of tables, each written [[store.pipelines.declared]]",
}
_WORDS = {
    "true": True, "yes": True, "on": True, "1": True,
    "false": False, "no": False, "off": False, "0": False,
}  # fmt: skip


class Given(NamedTuple):
    """A value for a setting, and where it stands."""

    place: str
    value: object


def settings_of(
    *,
    file: tuple[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
) -> ServerSettings:
    """The settings; ``file`` is the path and text of a TOML file, flags are by dotted name."""
    given: dict[str, Given] = {}
    if file is not None:
        given.update(_from_file(*file))
    given.update(_from_environment(environment or {}))
    for name, value in (flags or {}).items():
        given[name] = Given(f"--{name.replace('_', '-')}", value)
    return _made(given)


def names() -> dict[str, Any]:
    """Every setting by its dotted name, with its type."""
    return dict(_leaves(ServerSettings, ""))


def _leaves(struct: type[msgspec.Struct], prefix: str) -> Iterator[tuple[str, Any]]:
    for field in msgspec.structs.fields(struct):
        name = prefix + field.name
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            yield from _leaves(field.type, f"{name}.")
        else:
            yield name, field.type


def _from_file(path: str, text: str) -> Iterator[tuple[str, Given]]:
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Invalid(f"{path}: {error}") from error
    known = names()
    for name, value in _flat(tables, "", known):
        if name not in known:
            raise Invalid(f"{path}: there is no setting {name!r}{meant(name)}")
        yield name, Given(f"{path}: {name}", value)


def _flat(
    table: Mapping[str, Any], prefix: str, known: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        name = prefix + key
        if isinstance(value, dict) and name not in known:
            yield from _flat(value, f"{name}.", known)
            if not value and not any(each.startswith(f"{name}.") for each in known):
                yield name, value
        else:
            yield name, value


def _from_environment(environment: Mapping[str, str]) -> Iterator[tuple[str, Given]]:
    known = names()
    # The names that every command knows come first: those of the server itself win over them.
    for variable in sorted(environment, key=lambda each: (each not in _SHORT_NAMES, each)):
        if not variable.startswith(PREFIX) or variable in _OF_OTHERS:
            continue
        text = environment[variable]
        name = variable.removeprefix(PREFIX).lower().replace("__", ".")
        if variable in _SHORT_NAMES:
            name = _SHORT_NAMES[variable]
        elif name not in known:
            # Others may have names of their own; what looks like one of ours is a slip.
            told = meant(name)
            if "." in name or told:
                raise Invalid(f"{variable}: there is no setting {name!r}{told}")
            continue
        yield name, Given(variable, _parsed(variable, text, known[name]))


def _parsed(variable: str, text: str, kind: Any) -> object:
    if kind is bool:
        if text.lower() not in _WORDS:
            raise Invalid(f"{variable} is {_told(bool)}, not {text!r}")
        return _WORDS[text.lower()]
    if kind is int or kind is float:
        try:
            return int(text) if kind is int else float(text)
        except ValueError as error:
            raise Invalid(f"{variable} is {_told(kind)}, not {text!r}") from error
    if kind == tuple[Declared, ...]:
        try:
            return msgspec.json.decode(text)
        except msgspec.DecodeError as error:
            raise Invalid(f"{variable} is a list of declarations as JSON: {error}") from error
    if kind == tuple[str, ...]:
        return [part.strip() for part in text.split(",") if part.strip()]
    return text


def _made(given: Mapping[str, Given]) -> ServerSettings:
    known = names()
    tree: dict[str, Any] = {}
    for name, (place, value) in given.items():
        try:
            msgspec.convert(value, known[name])
        except msgspec.ValidationError as error:
            if known[name] == tuple[Declared, ...] and isinstance(value, list):
                raise Invalid(f"{place}: {error}") from error
            raise Invalid(f"{place} is {_told(known[name])}, not {value!r}") from error
        _check(name, place, value)
        branch = tree
        *groups, leaf = name.split(".")
        for group in groups:
            branch = branch.setdefault(group, {})
        branch[leaf] = value
    settings = msgspec.convert(tree, ServerSettings)
    checked(settings.store)
    check_declared(settings.store.pipelines)
    return settings


def _check(name: str, place: str, value: object) -> None:
    leaf = name.rpartition(".")[2]
    if leaf == "log_format" and value not in _LOG_FORMATS:
        raise Invalid(f"{place} is one of {', '.join(_LOG_FORMATS)}, not {value!r}")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return
    if leaf != "keep_last_versions" and not 0 <= value < float("inf"):
        raise Invalid(f"{place} is a number from 0 up, not {value}")
    if leaf in _POSITIVE and not value:
        raise Invalid(f"{place} is more than 0: without a bound anybody could hold the server up")


def _told(kind: Any) -> str:
    """What a setting of this type may be."""
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(map(str, get_args(kind)))
    return _KINDS.get(kind, "of another kind")


def meant(name: str) -> str:
    """What may be meant by a name that is no setting, as the end of a sentence."""
    known = names()
    if any(each.startswith(f"{name}.") for each in known):
        return f": it is a group, written [{name}]"
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.75)
    if not near:
        leaf = name.rpartition(".")[2]
        near = [each for each in known if each.rpartition(".")[2] == leaf][:1]
    if near:
        return f": did you mean {near[0]!r}?"
    group = name.rpartition(".")[0]
    fellows = [each for each in known if each.rpartition(".")[0] == group]
    return f": allowed are {', '.join(fellows)}" if fellows and group else ""
