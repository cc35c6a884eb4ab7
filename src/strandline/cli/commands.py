"""The commands of ``strandline``: their groups, one line about each, and where its code is.

``strandline --help`` prints this table, and the program finds the code of a command in it. It
imports nothing: the code of a command is imported when that command is run.
"""

from __future__ import annotations

from typing import NamedTuple


class CommandEntry(NamedTuple):
    """One command: its code, as ``module:attribute`` of this package, and its summary."""

    where: str
    summary: str


COMMANDS: dict[str, dict[str, CommandEntry]] = {
    "Records": {
        "append": CommandEntry("records.append:append", "Append records to a topic"),
        "read": CommandEntry("records.read:read", "Print the records of a topic, oldest first"),
        "tail": CommandEntry(
            "records.read:tail", "Print the newest records of a topic; -f waits for more"
        ),
        "topic": CommandEntry(
            "records.topics:app", "List, create, show, alter, delete and trim topics"
        ),
        "group": CommandEntry("views.groups:app", "List, show, move and alter consumer groups"),
        "router": CommandEntry(
            "serve.routers:app", "Create, list and delete routers between topics"
        ),
    },
    "Views": {
        "view": CommandEntry(
            "views.views:app", "List, create, show, alter and rebuild views of topics"
        ),
        "kv": CommandEntry("views.kv:app", "Read, write and watch the keys of a key-value view"),
        "queue": CommandEntry("views.queue:app", "Put, claim and ack jobs; manage dead letters"),
        "series": CommandEntry("views.series:app", "Write and read points by source and time"),
        "metrics": CommandEntry("views.metrics:app", "Write and query measurements"),
    },
    "Query": {
        "sql": CommandEntry("query.sql:sql", "Run a SELECT over topics, views and tables"),
        "run": CommandEntry(
            "query.run:run", "Run commands of event tables: DEFINE, STORE, QUERY, ..."
        ),
    },
    "Serve": {
        "serve": CommandEntry(
            "serve.serve:serve", "Serve a store over HTTP, with SSE and WebSockets"
        ),
        "token": CommandEntry(
            "serve.tokens:app", "Create, list and revoke access tokens of a server"
        ),
        "audit": CommandEntry("serve.audit:app", "Show and verify the audit log"),
        "dashboard": CommandEntry(
            "serve.grafana_dashboard:dashboard",
            "Print a Grafana dashboard for the metrics of a server",
        ),
    },
    "Lake and pipelines": {
        "lake": CommandEntry("pipelines.lake:app", "List, fill and clean up the lake of a store"),
        "pipeline": CommandEntry(
            "pipelines.pipeline:app", "Run pipelines over a store, embedded or on Spark"
        ),
        "reservoir": CommandEntry(
            "pipelines.reservoir:app", "Inspect, verify and clean up a reservoir"
        ),
    },
    "Maintenance": {
        "inspect": CommandEntry(
            "maintenance.inspect:inspect",
            "Show checkpoints, log files, segments and topics of a store",
        ),
        "verify": CommandEntry(
            "maintenance.verify:verify", "Check all files of a store, its lake and its views"
        ),
        "repair": CommandEntry(
            "maintenance.verify:repair", "Take damaged files out of use; keep the rest"
        ),
        "checkpoint": CommandEntry(
            "maintenance.checkpoint:checkpoint", "Move records from the log into segments"
        ),
        "backup": CommandEntry(
            "maintenance.backup:backup", "Back up a store; list, verify and prune backups"
        ),
        "restore": CommandEntry("maintenance.backup:restore", "Create a store from a backup"),
        "bench": CommandEntry(
            "maintenance.bench:bench", "Measure appends and reads on this disk or a server"
        ),
        "context": CommandEntry(
            "serve.context:app", "Name stores and servers, and choose the default"
        ),
        "doctor": CommandEntry(
            "maintenance.doctor:doctor", "Check the environment and the store or server"
        ),
        "demo": CommandEntry("demo.command:demo", "Start a server with example data"),
        "completion": CommandEntry(
            "completion:completion", "Print the completion script for bash, zsh or fish"
        ),
    },
}
"""By group, in the order of the list."""

OPTIONS = {
    "--help, -h": "Print this list, or after a command its options",
    "--version": "Print the version",
    "--install-completion": "Install completion for the current shell",
}
"""Options of the program without a command."""
