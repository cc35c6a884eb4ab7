"""What scopes mean for names that are not like others. Pure; asked by ``authorise`` and by SQL.

strandline.…     the server's own topics: nobody changes them, and an admin may read them
remembered:…     journals of remembered queries, with rows of other topics: an admin may read
                 them, nobody writes them; to make and delete one is REMEMBER and FORGET
all others       as the scopes say
"""

from __future__ import annotations

from strandline import records
from strandline.security.scopes import Action, Scope, Scopes

INTERNAL = records.INTERNAL
REMEMBERED = "remembered:"
_READ_ALL = Scopes([Scope(actions=("read",))])


def allowed(scopes: Scopes, action: Action, topic: str = "") -> bool:
    """Whether an action is allowed on a topic; on the server when none is named."""
    if topic.startswith(INTERNAL):
        return action == "read" and scopes.allow("admin")
    if topic.startswith(REMEMBERED) and action not in ("create", "delete"):
        return action == "read" and scopes.allow("admin") and scopes.cover(_READ_ALL)
    return scopes.allow(action, topic)
