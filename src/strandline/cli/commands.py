"""The commands of ``strandline``: their groups, one line about each, and where its code is.

``strandline --help`` prints this table, and the program finds the code of a command in it. It
imports nothing: the code of a command is imported when that command is run.
"""

from __future__ import annotations

from typing import NamedTuple


class Command(NamedTuple):
    """One command: its code, as ``module:attribute`` of this package, and its summary."""

    where: str
    summary: str


COMMANDS: dict[str, dict[str, Command]] = {
    "Records": {
        "append": Command("records.append:append", "Append records to a topic"),
        "read": Command("records.read:read", "Print the records of a topic, oldest first"),
        "tail": Command(
            "records.read:tail", "Print the newest records of a topic; -f waits for more"
        ),
        "topic": Command("records.topics:app", "List, create, show, alter, delete and trim topics"),
        "group": Command("views.groups:app", "List, show, move and alter consumer groups"),
        "router": Command("serve.routers:app", "Create, list and delete routers between topics"),
    },
    "Views": {
        "view": Command("views.views:app", "List, create, show, alter and rebuild views of topics"),
        "kv": Command("views.kv:app", "Read, write and watch the keys of a key-value view"),
        "queue": Command("views.queue:app", "Put, claim and ack jobs; manage dead letters"),
        "series": Command("views.series:app", "Write and read points by source and time"),
        "metrics": Command("views.metrics:app", "Write and query measurements"),
    },
    "Query": {
        "sql": Command("query.sql:sql", "Run a SELECT over topics, views and tables"),
        "run": Command("query.run:run", "Run commands of event tables: DEFINE, STORE, QUERY, ..."),
    },
    "Serve": {
        "serve": Command("serve.serve:serve", "Serve a store over HTTP, with SSE and WebSockets"),
        "token": Command("serve.tokens:app", "Create, list and revoke access tokens of a server"),
        "audit": Command("serve.audit:app", "Show and verify the audit log"),
        "dashboard": Command(
            "serve.grafana_dashboard:dashboard",
            "Print a Grafana dashboard for the metrics of a server",
        ),
    },
    "Lake and pipelines": {
        "lake": Command("pipelines.lake:app", "List, fill and clean up the lake of a store"),
        "pipeline": Command(
            "pipelines.pipeline:app", "Run pipelines over a store, embedded or on Spark"
        ),
        "reservoir": Command("pipelines.reservoir:app", "Inspect, verify and clean up a reservoir"),
    },
    "Maintenance": {
        "inspect": Command(
            "maintenance.inspect:inspect",
            "Show checkpoints, log files, segments and topics of a store",
        ),
        "verify": Command(
            "maintenance.verify:verify", "Check all files of a store, its lake and its views"
        ),
        "repair": Command(
            "maintenance.verify:repair", "Take damaged files out of use; keep the rest"
        ),
        "checkpoint": Command(
            "maintenance.checkpoint:checkpoint", "Move records from the log into segments"
        ),
        "backup": Command(
            "maintenance.backup:backup", "Back up a store; list, verify and prune backups"
        ),
        "restore": Command("maintenance.backup:restore", "Create a store from a backup"),
        "bench": Command(
            "maintenance.bench:bench", "Measure appends and reads on this disk or a server"
        ),
        "context": Command("serve.context:app", "Name stores and servers, and choose the default"),
        "doctor": Command(
            "maintenance.doctor:doctor", "Check the environment and the store or server"
        ),
        "demo": Command("demo.command:demo", "Start a server with example data"),
        "completion": Command(
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
