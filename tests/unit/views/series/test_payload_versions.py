"""Promise: a payload is read by the reader of its version, and by no other."""

from __future__ import annotations

import json

import pytest

from strandline.errors import Conflict, Invalid
from strandline.views.series.payload_versions import PayloadVersions
from tests.unit.store.world import World
from tests.unit.views.series.series_world import open_series


def test_every_version_has_its_reader():
    versions = PayloadVersions()
    versions.register(1, bytes.decode)
    versions.register(2, json.loads)

    assert versions.deserialize(1, b"[1]") == "[1]"
    assert versions.deserialize(2, b"[1]") == [1]


def test_an_unknown_version_is_refused_with_its_number():
    versions = PayloadVersions()

    with pytest.raises(Invalid, match="payload version 3"):
        versions.deserialize(3, b"")

    assert not versions.can_deserialize(3)


def test_a_version_keeps_its_reader():
    versions = PayloadVersions()
    versions.register(1, json.loads)
    versions.register(1, json.loads)

    with pytest.raises(Conflict, match="new number"):
        versions.register(1, bytes.decode)

    assert versions.can_deserialize(1)


@pytest.mark.parametrize("version", [-1, 65_536, "1", True, None])
def test_a_version_is_a_number_of_sixteen_bits(version):
    with pytest.raises(Invalid, match="65535"):
        PayloadVersions().register(version, bytes.decode)


def test_points_tell_the_version_that_they_came_with():
    gps = open_series(World().store)
    gps.versions.register(65_535, json.loads)
    gps.append("bus", 1, b"[1]", version=65_535)

    (point,) = gps.range("bus")

    assert gps.versions.deserialize(point.version, point.payload) == [1]
