"""Promise: a client raises the class that the server met, with what its caller acts on."""

from __future__ import annotations

import pytest

from strandline import errors
from strandline.api.errors import exception_of, read_wire_error, wire_error_of
from strandline.errors import RouterCycle, RouterFanIn, StrandlineError, UnknownRouter

KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, StrandlineError)
]


def _over_the_wire(error: StrandlineError) -> StrandlineError:
    problem = wire_error_of(error)
    return exception_of(read_wire_error(problem.status, problem.body()))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_error_arrives_as_its_own_class(kind):
    error = kind.__new__(kind)
    Exception.__init__(error, "what happened")
    for name in ("gap_from", "gap_to"):
        setattr(error, name, 1)
    error.reason, error.cycle = "cap", ["a", "b", "a"]

    arrived = _over_the_wire(error)

    assert type(arrived) is kind
    assert str(arrived) == "what happened"


def test_codes_of_classes_are_their_own():
    assert len({kind.code for kind in KINDS}) == len(KINDS)


def test_a_circle_and_a_second_source_say_what_they_are():
    circle = RouterCycle(["a", "b", "a"])
    fan_in = RouterFanIn("dest", "router", "source")

    told = [wire_error_of(each) for each in (circle, fan_in, UnknownRouter("r"))]

    assert _over_the_wire(circle).cycle == ["a", "b", "a"]
    assert [(each.status, each.code) for each in told] == [
        (409, "router_cycle"),
        (409, "topic_exists_incompatible"),
        (404, "router_not_found"),
    ]
    assert told[0].detail["cycle"] == ["a", "b", "a"]
    assert told[1].detail["reason"] == "router_dest_fan_in"
