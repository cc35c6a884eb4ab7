"""The page that ``strandline --help`` prints: every command in one line, by group.

It needs the table of commands and nothing else, neither cyclopts nor the code of a command: those
take several times as long to import as the page takes to print.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from strandline.cli.commands import COMMANDS, OPTIONS

INTRODUCTION = """\
One durable log, every view of it: append, read and look after a store.

Try `strandline append greetings hello`, then `strandline read greetings`.
`strandline COMMAND --help` describes a command and its options."""

_HELP = ("--help", "-h")
_NOT_FOR_THE_PAGE = ("--install-completion", "--")
_OPTION_COLUMN = max(map(len, OPTIONS))
_COMMAND_COLUMN = max(len(name) for group in COMMANDS.values() for name in group)


def is_requested(tokens: Sequence[str]) -> bool:
    """Whether a command line is a request for the page: no words at all, or help and no command."""
    if not tokens:
        return True
    others = [token for token in tokens if token not in _HELP]
    has_command = bool(others) and (not others[0].startswith("-") or others[0] in _NOT_FOR_THE_PAGE)
    return not has_command and any(token in _HELP for token in tokens)


def page() -> str:
    """The whole page."""
    return "\n".join(["Usage: strandline COMMAND", "", INTRODUCTION, *_sections()])


def _sections() -> Iterator[str]:
    for title, commands in COMMANDS.items():
        summaries = {name: command.summary for name, command in commands.items()}
        yield from _section(title, summaries, _COMMAND_COLUMN)
    yield from _section("Options", OPTIONS, _OPTION_COLUMN)


def _section(title: str, rows: Mapping[str, str], column: int) -> Iterator[str]:
    yield from ("", f"{title}:")
    for name, summary in rows.items():
        yield f"  {name:{column}}  {summary}"
