"""The kinds of views that a store has."""

from __future__ import annotations

from strandline.view_config import KvConfig
from strandline.views.kv.fold import KvFold
from strandline.views.kv.kv import Kv
from strandline.views.views import Kind

KV = Kind("kv", KvConfig, "kv", ("",), KvFold, lambda host, _: Kv(host))

KINDS = {kind.name: kind for kind in (KV,)}
