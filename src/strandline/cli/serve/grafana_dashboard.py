"""``strandline dashboard``: the dashboard of a server's metrics, for Grafana."""

from __future__ import annotations

import json
import sys

from strandline.server.grafana_dashboard import dashboard as made


def dashboard(*, title: str = "Strandline") -> None:
    """Print a Grafana dashboard for the metrics of a server.

    Import it in Grafana, and choose your Prometheus. Let Prometheus ask `/v0/metrics` of the
    server, with a token that may `metrics`.

    Parameters
    ----------
    title
        Title of the dashboard.
    """
    sys.stdout.write(json.dumps(made(title), indent=2) + "\n")
