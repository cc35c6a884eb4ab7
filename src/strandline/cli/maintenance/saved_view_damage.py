"""Damage of saved views: found by ``strandline verify`` and when a view is opened.

Saved views are derived from the log. Damage in them loses nothing and is reported with its remedy.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from strandline.errors import Corrupt, NotFound, Unavailable
from strandline.log.files.layout import Layout
from strandline.log.repair.verify import VerifyNote
from strandline.platform.objectstore.cloud import open_objects
from strandline.reservoir import verify
from strandline.reservoir.verify import CheckReport, Progress

_REBUILD = "`strandline view rebuild --all` rebuilds the views from the log"


def notes_on_views(store: str, views_url: str, progress: Progress) -> list[VerifyNote]:
    """Notes on the damage of saved views."""
    url = views_location(store, views_url)
    if not views_url and not os.path.isdir(url):
        return []
    try:
        with contextlib.closing(open_objects(url)) as objects:
            report = verify.verify(objects, progress)
    except NotFound:
        return []
    except Unavailable as error:
        return [VerifyNote(path=url, text=f"the saved views cannot be read ({error})")]
    return [
        VerifyNote(
            path=f"{report.place}/{damage.object}",
            text=f"saved views are damaged at byte {damage.offset} ({damage.reason}); nothing is "
            f"lost: {_remedy(url, report)}",
        )
        for damage in report.damage
    ]


@contextlib.contextmanager
def damage_hint(store: str, views_url: str) -> Iterator[None]:
    """Add the remedy to errors of damaged saved views: a rebuild, not a repair."""
    try:
        yield
    except Corrupt as error:
        location = views_location(store, views_url)
        if error.path.startswith(location):
            error.add_note(
                f"the log is not damaged: {_REBUILD}; if that fails, move {location} away"
            )
        raise


def views_location(store: str, views_url: str) -> str:
    """Location of the saved views of a store."""
    if "://" in views_url:
        return views_url
    return os.path.abspath(views_url or Layout(store).views)


def _remedy(url: str, report: CheckReport) -> str:
    if not report.version:
        return f"move {url} away, and the views are rebuilt from the log"
    return f"{_REBUILD}, and later saves drop the damage"
