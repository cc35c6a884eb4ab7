"""A server's settings from a file, then the environment, then flags: the later wins. Pure.

    strandline.toml      [limits]                         STRANDLINE_LIMITS__BODY_BYTES_MAX=1000
                         body_bytes_max = 1000
                         [store.wal]                      STRANDLINE_STORE__WAL__SHARDS=2
                         shards = 2

In the environment two underscores separate groups; lists are separated by commas, declared
pipelines are JSON. Every error names the source, the setting and the allowed values.
``STRANDLINE_STORE``, ``STRANDLINE_LAKE_URL`` and ``STRANDLINE_VIEWS_URL`` have the same meaning as
for every command.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple, get_args, get_origin

import msgspec

from strandline.config.pipeline_config import DeclaredPipeline
from strandline.config.settings import check_settings
from strandline.errors import Invalid
from strandline.pipelines.schedule.validation import check_declared
from strandline.server.settings import ServerSettings

PREFIX = "STRANDLINE_"
_SHORT_NAMES = {
    "STRANDLINE_STORE": "data",
    "STRANDLINE_LAKE_URL": "store.lake.url",
    "STRANDLINE_VIEWS_URL": "store.views.url",
}
# Names of the command line, which may be in the environment of a server, too.
_CLI_NAMES = frozenset(
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
    tuple[DeclaredPipeline, ...]: "a list of tables, each written [[store.pipelines.declared]]",
}
_BOOLEANS = {
    "true": True, "yes": True, "on": True, "1": True,
    "false": False, "no": False, "off": False, "0": False,
}  # fmt: skip


class _SettingValue(NamedTuple):
    """A value of a setting, and its source."""

    place: str
    value: object


def settings_of(
    *,
    file: tuple[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
) -> ServerSettings:
    """The settings; ``file`` is the path and text of a TOML file, flags are by dotted name."""
    values: dict[str, _SettingValue] = {}
    if file is not None:
        values.update(_from_file(*file))
    values.update(_from_environment(environment or {}))
    for name, value in (flags or {}).items():
        values[name] = _SettingValue(f"--{name.replace('_', '-')}", value)
    return _settings(values)


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


def _from_file(path: str, text: str) -> Iterator[tuple[str, _SettingValue]]:
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Invalid(f"{path}: {error}") from error
    known = names()
    for name, value in _flat(tables, "", known):
        if name not in known:
            raise Invalid(f"{path}: there is no setting {name!r}{suggestion_for(name)}")
        yield name, _SettingValue(f"{path}: {name}", value)


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


def _from_environment(environment: Mapping[str, str]) -> Iterator[tuple[str, _SettingValue]]:
    known = names()
    # Names of every command come first, so that those of the server itself win over them.
    for variable in sorted(environment, key=lambda each: (each not in _SHORT_NAMES, each)):
        if not variable.startswith(PREFIX) or variable in _CLI_NAMES:
            continue
        text = environment[variable]
        name = variable.removeprefix(PREFIX).lower().replace("__", ".")
        if variable in _SHORT_NAMES:
            name = _SHORT_NAMES[variable]
        elif name not in known:
            # Other programs may use the prefix; a name like one of a setting is a mistake.
            suggestion = suggestion_for(name)
            if "." in name or suggestion:
                raise Invalid(f"{variable}: there is no setting {name!r}{suggestion}")
            continue
        yield name, _SettingValue(variable, _parsed(variable, text, known[name]))


def _parsed(variable: str, text: str, kind: Any) -> object:
    if kind is bool:
        if text.lower() not in _BOOLEANS:
            raise Invalid(f"{variable} is {_allowed(bool)}, not {text!r}")
        return _BOOLEANS[text.lower()]
    if kind is int or kind is float:
        try:
            return int(text) if kind is int else float(text)
        except ValueError as error:
            raise Invalid(f"{variable} is {_allowed(kind)}, not {text!r}") from error
    if kind == tuple[DeclaredPipeline, ...]:
        try:
            return msgspec.json.decode(text)
        except msgspec.DecodeError as error:
            raise Invalid(f"{variable} is a list of declarations as JSON: {error}") from error
    if kind == tuple[str, ...]:
        return [part.strip() for part in text.split(",") if part.strip()]
    return text


def _settings(values: Mapping[str, _SettingValue]) -> ServerSettings:
    known = names()
    tree: dict[str, Any] = {}
    for name, (source, value) in values.items():
        try:
            msgspec.convert(value, known[name])
        except msgspec.ValidationError as error:
            if known[name] == tuple[DeclaredPipeline, ...] and isinstance(value, list):
                raise Invalid(f"{source}: {error}") from error
            raise Invalid(f"{source} is {_allowed(known[name])}, not {value!r}") from error
        _check(name, source, value)
        branch = tree
        *groups, leaf = name.split(".")
        for group in groups:
            branch = branch.setdefault(group, {})
        branch[leaf] = value
    settings = msgspec.convert(tree, ServerSettings)
    check_settings(settings.store)
    check_declared(settings.store.pipelines)
    return settings


def _check(name: str, source: str, value: object) -> None:
    leaf = name.rpartition(".")[2]
    if leaf == "log_format" and value not in _LOG_FORMATS:
        raise Invalid(f"{source} is one of {', '.join(_LOG_FORMATS)}, not {value!r}")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return
    if leaf != "retained_stream_versions" and not 0 <= value < float("inf"):
        raise Invalid(f"{source} is a number from 0 up, not {value}")
    if leaf in _POSITIVE and not value:
        raise Invalid(f"{source} is more than 0: without a limit one client could block the server")


def _allowed(kind: Any) -> str:
    """The allowed values of a setting of this type, as text."""
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(map(str, get_args(kind)))
    return _KINDS.get(kind, "of another type")


def suggestion_for(name: str) -> str:
    """A suggestion for an unknown setting, as the end of a sentence."""
    known = names()
    if any(each.startswith(f"{name}.") for each in known):
        return f": it is a group, written [{name}]"
    close_names = difflib.get_close_matches(name, known, n=1, cutoff=0.75)
    if not close_names:
        leaf = name.rpartition(".")[2]
        close_names = [each for each in known if each.rpartition(".")[2] == leaf][:1]
    if close_names:
        return f": did you mean {close_names[0]!r}?"
    group = name.rpartition(".")[0]
    siblings = [each for each in known if each.rpartition(".")[0] == group]
    return f": allowed are {', '.join(siblings)}" if siblings and group else ""
