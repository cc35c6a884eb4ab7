"""``strandline dashboard``: a Grafana dashboard for the metrics of a server."""

from __future__ import annotations

import json
import sys

from strandline.server.grafana_dashboard import dashboard as dashboard_json


def dashboard(*, title: str = "Strandline") -> None:
    """Print a Grafana dashboard for the metrics of a server.

    Import it in Grafana and choose your Prometheus. Prometheus scrapes `/v0/metrics` of the server
    with a token that has the scope `metrics`.

    Parameters
    ----------
    title
        Title of the dashboard.
    """
    sys.stdout.write(json.dumps(dashboard_json(title), indent=2) + "\n")
