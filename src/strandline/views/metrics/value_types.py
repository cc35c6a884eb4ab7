"""The three kinds of field values, and their representation as bits.

    kind      stored as                                          in an aggregate
    int64     itself                                             itself
    float64   its IEEE 754 bits; NaN and infinity are rejected   itself
    bool      0 or 1                                             0 or 1

Between the log and the result a value is its bits, a signed number of 64 bits for every kind: so
points of all kinds are stored in the same columns.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strandline.errors import Invalid

INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1
AT_MIN = INT64_MIN + 2
AT_MAX = INT64_MAX - 1
"""Valid times, as in InfluxDB: a floor can be below all, and an exclusive end above all."""
FLOAT_EXACT_MAX = 2**53

Ints = NDArray[np.int64]
Values = NDArray[Any]
"""Numbers of one kind."""

_DOUBLE = struct.Struct("<d")
_BITS = struct.Struct("<q")


class ValueKind(IntEnum):
    """The type of the values of a field."""

    INT = 1
    FLOAT = 2
    BOOL = 3

    @property
    def label(self) -> str:
        return _LABELS[self]


_LABELS = {ValueKind.INT: "int64", ValueKind.FLOAT: "float64", ValueKind.BOOL: "bool"}
_DTYPES = {
    ValueKind.INT: np.dtype("<i8"),
    ValueKind.FLOAT: np.dtype("<f8"),
    ValueKind.BOOL: np.dtype("?"),
}


def kind_of_value(value: object) -> ValueKind:
    """The kind of a Python or numpy number."""
    if isinstance(value, (bool, np.bool_)):
        return ValueKind.BOOL
    if isinstance(value, (int, np.integer)):
        return ValueKind.INT
    if isinstance(value, (float, np.floating)):
        return ValueKind.FLOAT
    raise Invalid(f"{value!r} cannot be a field's value: give an int, a float or a bool")


def bits_of(value: Any, kind: ValueKind) -> int:
    """The bits of one number of this kind."""
    if kind is ValueKind.FLOAT:
        number = float(value)
        if not isfinite(number):
            raise Invalid(f"{value!r} cannot be a field's value: it is not finite")
        return int(_BITS.unpack(_DOUBLE.pack(number))[0])
    number = int(value)
    if not INT64_MIN <= number <= INT64_MAX:
        raise Invalid(f"{value} cannot be a field's value: it does not fit into 64 bits, signed")
    return number


def to_bits(values: Values, kind: ValueKind) -> Ints:
    """The bits of numbers of this kind."""
    typed = np.ascontiguousarray(values, dtype=_DTYPES[kind])
    return typed.astype("<i8") if kind is ValueKind.BOOL else typed.view("<i8")


def from_bits(bits: Ints, kind: ValueKind) -> Values:
    """The numbers of bits, in the type of their kind."""
    if kind is ValueKind.FLOAT:
        return np.ascontiguousarray(bits).view("<f8")
    return bits.astype("?") if kind is ValueKind.BOOL else bits


def numbers(bits: Ints, kind: ValueKind) -> Values:
    """The numbers of bits for arithmetic: booleans are 0 and 1."""
    return np.ascontiguousarray(bits).view("<f8") if kind is ValueKind.FLOAT else bits
