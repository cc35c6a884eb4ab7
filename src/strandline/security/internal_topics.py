"""Protection of internal topics. Pure; used by ``authorise`` and by SQL.

strandline.…     the server's own topics: no client changes them, and an admin may read them
remembered:…     results of materialized queries, with rows of other topics: an admin that may read
                 all topics may read them, no client writes them; REMEMBER and FORGET create and
                 delete them
all others       according to the scopes
"""

from __future__ import annotations

from strandline import records
from strandline.security.scopes import Action, Scope, Scopes

INTERNAL = records.INTERNAL
REMEMBERED = "remembered:"
_READ_ALL = Scopes([Scope(actions=("read",))])


def allowed(scopes: Scopes, action: Action, topic: str = "") -> bool:
    """Whether an action is allowed on a topic; without a topic, on the server."""
    if topic.startswith(INTERNAL):
        return action == "read" and scopes.allow("admin")
    if topic.startswith(REMEMBERED) and action not in ("create", "delete"):
        return action == "read" and scopes.allow("admin") and scopes.cover(_READ_ALL)
    return scopes.allow(action, topic)
