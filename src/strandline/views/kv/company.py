"""Other views of the same topic.

What they write is not for this one, and they may need what is dead here.
"""

from __future__ import annotations

from strandline.views.host import Host
from strandline.views.kv.fold import KvFold
from strandline.views.view import MARKS


def marks_of_others(host: Host[KvFold]) -> tuple[bytes, ...]:
    """How the meta of records begins that other views of the topic have written."""
    views = host.topics[0].config.views
    others = [kind for kind in MARKS if kind != host.kind and getattr(views, kind) is not None]
    return tuple(MARKS[kind] for kind in others)
