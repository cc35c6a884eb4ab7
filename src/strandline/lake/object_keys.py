"""Names of objects in the lake. Pure.

    store.json                                        the store that this lake belongs to
    terms/<term, 20 digits>.json                      one for every opening that wrote here
    names/<xxh3-64 of a name, hex>-<topic id, hex>    marker: finds a topic by its name
    topics/<topic id, hex>/manifest/<number, 20 digits>.json
    topics/<topic id, hex>/data/<first seq>-<last seq>-<content>.parquet

Numbers have leading zeros, so that a listing has them in order. No key contains the name of a
topic, which may hold any character.
"""

from __future__ import annotations

from xxhash import xxh3_64_hexdigest

STORE = "store.json"
TERMS = "terms"
NAMES = "names"
_SUFFIX = ".json"
_DIGITS = 20


def term_key(term: int) -> str:
    return f"{TERMS}/{term:020d}{_SUFFIX}"


def name_key(name: str, topic_id: int) -> str:
    return f"{name_start(name)}{topic_id:016x}"


def name_start(name: str) -> str:
    """Prefix of the keys of all topics with this name, or a name with the same hash."""
    return f"{NAMES}/{xxh3_64_hexdigest(name.encode())}-"


def topic_folder(topic_id: int) -> str:
    return f"topics/{topic_id:016x}"


def manifest_folder(topic_id: int) -> str:
    return f"{topic_folder(topic_id)}/manifest"


def manifest_key(topic_id: int, number: int) -> str:
    return f"{manifest_folder(topic_id)}/{number:020d}{_SUFFIX}"


def data_folder(topic_id: int) -> str:
    return f"{topic_folder(topic_id)}/data"


def data_key(topic_id: int, name: str) -> str:
    return f"{data_folder(topic_id)}/{name}"


def last_part(key: str) -> str:
    return key.rpartition("/")[2]


def number_of(key: str) -> int | None:
    """The number of a manifest or term; None for an object that is neither."""
    digits = last_part(key).removesuffix(_SUFFIX)
    if len(digits) != _DIGITS or not digits.isdecimal() or not key.endswith(_SUFFIX):
        return None
    return int(digits)
