"""The program that runs commands: parses a command line and imports the command that it names."""

from __future__ import annotations

from cyclopts import App

from strandline.cli.commands import COMMANDS, OPTIONS
from strandline.cli.version import version_line


def make_app() -> App:
    """The commands. Only the command that runs is imported: importing all of them takes longer than
    most commands. ``overview`` prints the list of commands."""
    app = App(name="strandline", version=version_line, suppress_keyboard_interrupt=False)
    for commands in COMMANDS.values():
        for name, (where, summary) in commands.items():
            # The help of a group is its summary; the help of a command is its docstring.
            text = f"{summary}." if where.endswith(":app") else None
            app.command(f"strandline.cli.{where}", name=name, help=text)
    app.register_install_completion_command(help=f"{OPTIONS['--install-completion']}.")
    return app
