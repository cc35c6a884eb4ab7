"""A pipeline that the settings of a store declare: what runs, and when. Data only.

``pipelines/schedule/validation.py`` checks them, ``pipelines/schedule/scheduler.py`` runs them.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

EngineName = Literal["embedded", "spark"]


class DeclaredPipeline(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A pipeline with its arguments and its schedule. Set either ``every`` or ``at``."""

    name: str
    """Name of the schedule: lowercase letters, digits, ``-`` and ``_``."""

    pipeline: str
    """The pipeline to run: ``strandline pipeline ls`` lists them."""

    arguments: dict[str, Any] = {}
    """Arguments of the pipeline, by name. The list of processes shows them: no secrets."""

    every: str = ""
    """Interval of the runs: ``15m``, ``6h``, ``1d``. Due at its multiples since 1970, UTC."""

    at: str = ""
    """Minute, hour, day, month and weekday as in Debian's cron: ``30 3 * * mon-fri``."""

    timezone: str = "UTC"
    """Time zone of ``at``, as a name of the tz database."""

    engine: EngineName = "embedded"
    """``embedded`` runs in a process of its own, ``spark`` through ``spark-submit``."""

    master: str = "local[*]"
    """The Spark master, for ``spark``."""

    timeout: str = "6h"
    """Duration after which a run is stopped."""
