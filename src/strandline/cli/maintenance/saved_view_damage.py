"""Damage of saved views: found by ``strandline verify``, met by whoever opens a view.

They are derived from the log. So damage there loses nothing, and is told with its cure.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from strandline.errors import Corrupt, NotFound, Unavailable
from strandline.log.files.layout import Layout
from strandline.log.repair.verify import Note
from strandline.platform.objectstore.cloud import open_objects
from strandline.reservoir import verify
from strandline.reservoir.verify import CheckReport, Progress

_REBUILD = "`strandline view rebuild --all` folds the views again from the log"


def notes_on_views(store: str, views_url: str, progress: Progress) -> list[Note]:
    """What is wrong with the saved views, if there are any."""
    url = place_of(store, views_url)
    if not views_url and not os.path.isdir(url):
        return []
    try:
        with contextlib.closing(open_objects(url)) as objects:
            report = verify.verify(objects, progress)
    except NotFound:
        return []
    except Unavailable as error:
        return [Note(path=url, text=f"the saved views cannot be read ({error})")]
    return [
        Note(
            path=f"{report.place}/{damage.object}",
            text=f"saved views are damaged at byte {damage.offset} ({damage.reason}); nothing is "
            f"lost: {_cure(url, report)}",
        )
        for damage in report.damage
    ]


@contextlib.contextmanager
def damage_told(store: str, views_url: str) -> Iterator[None]:
    """Say of damage in saved views what helps, which is no repair."""
    try:
        yield
    except Corrupt as error:
        place = place_of(store, views_url)
        if error.path.startswith(place):
            error.add_note(
                f"the log is not damaged: {_REBUILD}; if even that fails, move {place} away"
            )
        raise


def place_of(store: str, views_url: str) -> str:
    """Where the views of a store are saved."""
    if "://" in views_url:
        return views_url
    return os.path.abspath(views_url or Layout(store).views)


def _cure(url: str, report: CheckReport) -> str:
    if not report.version:
        return f"move {url} away, and the views are folded again from the log"
    return f"{_REBUILD}, and later saves drop what is damaged"
