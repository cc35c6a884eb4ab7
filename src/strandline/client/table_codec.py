"""Encodes the events of a table. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from strandline.api.records import as_json
from strandline.errors import Invalid
from strandline.views.table.table import Event

_BLANK = b" \t\r\n"


def encode_events(contexts: Sequence[str] | str, events: Sequence[Event]) -> list[msgspec.Raw]:
    """Events as JSON. Only the server checks contexts and fields against the schema."""
    if not isinstance(contexts, str) and len(contexts) != len(events):
        raise Invalid(f"{len(events)} events need as many contexts, not {len(contexts)}")
    if not events:
        raise Invalid("there is no event to store")
    for context in [contexts] if isinstance(contexts, str) else contexts:
        if not isinstance(context, str) or not context:
            raise Invalid(f"a context is non-empty text, not {context!r}")
    return [encode_event(event) for event in events]


def encode_event(event: Event) -> msgspec.Raw:
    """An event as JSON."""
    if isinstance(event, Mapping):
        try:
            return msgspec.Raw(msgspec.json.encode(event))
        except (TypeError, ValueError) as error:
            raise Invalid(f"an event must be encodable as JSON: {error}") from error
    if not isinstance(event, str | bytes):
        raise Invalid(f"an event is a map or JSON text, not {type(event).__name__}")
    text = event.encode() if isinstance(event, str) else event
    raw = as_json(text.strip(_BLANK))
    if raw is None:
        raise Invalid("an event is a JSON object, and this is not JSON")
    return raw
