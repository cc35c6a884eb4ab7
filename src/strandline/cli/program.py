"""The program that runs commands: parses a command line, and imports the command that it names."""

from __future__ import annotations

from cyclopts import App

from strandline.cli.commands import COMMANDS, OPTIONS
from strandline.cli.version import version_line


def make_app() -> App:
    """The commands. Only those that are named are imported: all of them together take longer than
    most commands. The list of all commands is printed by ``overview``."""
    app = App(name="strandline", version=version_line, suppress_keyboard_interrupt=False)
    for commands in COMMANDS.values():
        for name, (where, summary) in commands.items():
            # A mere group of commands has its summary here; what runs has a docstring with more.
            text = f"{summary}." if where.endswith(":app") else None
            app.command(f"strandline.cli.{where}", name=name, help=text)
    app.register_install_completion_command(help=f"{OPTIONS['--install-completion']}.")
    return app
