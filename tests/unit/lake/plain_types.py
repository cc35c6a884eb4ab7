"""What a field of JSON is as a typed value, written to be read: one value at a time, no libraries.

``plain_rows`` is what ``lake/files/typed_columns.py`` must agree with, however fast it is.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

from strandline.schema import FieldType

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
BAD_BYTE = "\ue000\ue001\ue002"  # which no generator comes upon
_MOMENT = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:[Zz]|([+-])(\d\d):?(\d\d))",
    re.ASCII,
)
_DAY = re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII)


def plain_rows(rows: list[bytes], kinds: dict[str, FieldType]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {name: [] for name in kinds}
    for data in rows:
        fields = _object(data)
        for name, kind in kinds.items():
            found[name].append(_typed(fields.get(name), kind))
    return found


def _object(data: bytes) -> dict[str, Any]:
    """The fields of a JSON object, none where it is none. Text that is no UTF-8 is marked."""
    text = re.sub("[\udc80-\udcff]", BAD_BYTE, data.decode(errors="surrogateescape"))
    try:
        found = json.loads(
            text, parse_constant=_refused, parse_int=_whole, object_pairs_hook=_whole_text
        )
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _whole_text(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The last of every name. Half of a pair of \\u escapes is no character, and this no JSON."""
    if re.search("[\ud800-\udfff]", json.dumps(pairs, ensure_ascii=False)):
        raise ValueError(pairs)
    return dict(pairs)


def _refused(constant: str) -> None:
    raise ValueError(constant)


def _whole(digits: str) -> Any:
    return int(digits) if len(digits) < 4300 else 10**400


def _typed(value: Any, kind: FieldType) -> Any:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    is_whole = is_number and isinstance(value, int)
    if kind.name in ("string", "enum"):
        fits = isinstance(value, str) and BAD_BYTE not in value
        return value if fits and (not kind.variants or value in kind.variants) else None
    if kind.name == "bool":
        return value if isinstance(value, bool) else None
    if kind.name == "u64":
        return value if is_whole and 0 <= value < 2**64 else None
    if kind.name == "i64":
        return value if is_whole and -(2**63) <= value < 2**63 else None
    if kind.name == "f64":
        return _float(value) if is_number else None
    moment = _moment(value) if isinstance(value, str) else _counted(value) if is_number else None
    return moment.date() if moment is not None and kind.name == "date" else moment


def _float(value: int | float) -> float | None:
    try:
        found = float(value)
    except OverflowError:
        return None
    return None if found in (float("inf"), float("-inf")) else found


def _moment(text: str) -> datetime | None:
    try:
        if day := _DAY.fullmatch(text):
            return datetime(*map(int, day.groups()), tzinfo=UTC)
        if not (found := _MOMENT.fullmatch(text)):
            return None
        *whole, fraction, sign, hours, minutes = found.groups()
        moment = datetime(*map(int, whole), tzinfo=UTC)
        moment += timedelta(microseconds=int((fraction or "").ljust(6, "0")[:6]))
        if sign:
            if int(hours) > 23 or int(minutes) > 59:
                return None
            offset = timedelta(hours=int(hours), minutes=int(minutes))
            moment -= offset if sign == "+" else -offset
    except (ValueError, OverflowError):
        return None
    return moment


def _counted(number: int | float) -> datetime | None:
    if isinstance(number, float):
        micros = round(number * 1e6) if abs(number) < 1e12 else 10**18
    else:
        digits = len(str(abs(number)))
        if digits > 19:
            return None
        scale = 10**6 if digits <= 11 else 1000 if digits <= 14 else 1
        micros = number * scale if digits <= 16 else number // 1000
    try:
        return EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return None
