"""``strandline pipeline run NAME``: work over a whole store."""

from __future__ import annotations

from cyclopts import App

from strandline.cli import transfer

PLACE = 40  # among the commands of the help page

app = App(
    name="pipeline",
    help="Work over a whole store: import and export files.",
    sort_key=PLACE,
)
run = App(name="run", help="Run a pipeline. Killed, it goes on when it is run again.")
app.command(run)
run.command(transfer.import_files, name="import")
run.command(transfer.export, name="export")
