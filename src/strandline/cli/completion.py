"""``strandline completion``: the script that lets a shell complete our commands and options."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Literal

from cyclopts import App

Shell = Literal["bash", "zsh", "fish"]


def completion_of(app: App) -> Callable[[Shell], None]:
    """The command, for an application that is complete."""

    def completion(shell: Shell, /) -> None:
        """Print the script for a shell; `strandline --install-completion` puts it into place.

        As in `source <(strandline completion bash)`.

        Parameters
        ----------
        shell
            bash, zsh or fish.
        """
        sys.stdout.write(app.generate_completion(prog_name="strandline", shell=shell))

    return completion
