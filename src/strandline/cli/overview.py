"""The page that ``strandline --help`` prints: every command in one line, by group.

It needs the table of commands only. Importing cyclopts and the code of the commands takes several
times as long as printing the page.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from strandline.cli.commands import COMMANDS, OPTIONS

INTRODUCTION = """\
One durable log, every view of it: append to, read and maintain a store.

Try `strandline append greetings hello`, then `strandline read greetings`.
`strandline COMMAND --help` describes a command and its options."""

_HELP = ("--help", "-h")
_WITH_OWN_HELP = ("--install-completion", "--")
_OPTION_COLUMN = max(map(len, OPTIONS))
_COMMAND_COLUMN = max(len(name) for group in COMMANDS.values() for name in group)


def is_requested(tokens: Sequence[str]) -> bool:
    """Whether a command line requests the page: it is empty, or has help and no command."""
    if not tokens:
        return True
    others = [token for token in tokens if token not in _HELP]
    has_command = bool(others) and (not others[0].startswith("-") or others[0] in _WITH_OWN_HELP)
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
