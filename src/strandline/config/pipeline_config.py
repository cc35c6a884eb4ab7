"""A pipeline that a store declares: what is run, and when. Data only.

``pipelines/schedule/validation.py`` says which are good, ``pipelines/schedule/scheduler.py`` runs
them.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

EngineName = Literal["embedded", "spark"]


class Declared(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A pipeline with its arguments, and when it is due. Either ``every`` or ``at``."""

    name: str
    """What it is called: small letters, digits, ``-`` and ``_``."""

    pipeline: str
    """Which pipeline: ``strandline pipeline ls`` lists them."""

    arguments: dict[str, Any] = {}
    """What it is told, by name. They are seen in the list of processes: no secrets."""

    every: str = ""
    """A duration: ``15m``, ``6h``, ``1d``. Due at its multiples since 1970, UTC."""

    at: str = ""
    """Minute, hour, day, month and weekday as in Debian's cron: ``30 3 * * mon-fri``."""

    timezone: str = "UTC"
    """Where ``at`` is meant, as a name of the tz database."""

    engine: EngineName = "embedded"
    """``embedded`` is a process of its own, ``spark`` one by ``spark-submit``."""

    master: str = "local[*]"
    """The Spark master, for ``spark``."""

    timeout: str = "6h"
    """A run that takes longer is ended."""
