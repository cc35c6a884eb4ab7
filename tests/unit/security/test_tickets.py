"""Promise: a ticket opens one stream, within half a minute, for whoever it was given to."""

from __future__ import annotations

import itertools

import pytest

from strandline.errors import Unavailable
from strandline.security import tickets as module
from strandline.security.principal import Principal
from strandline.security.tickets import VALID_S, Tickets
from strandline.testing.sim_clock import SimClock

ADA, BOB = Principal(id="ada"), Principal(id="bob")


@pytest.fixture
def clock() -> SimClock:
    return SimClock()


@pytest.fixture
def tickets(clock: SimClock) -> Tickets:
    numbers = itertools.count()
    return Tickets(clock, lambda: next(numbers).to_bytes(16, "big"))


def test_a_ticket_is_good_once(tickets: Tickets):
    ticket = tickets.issue(ADA)

    assert tickets.redeem(ticket) == ADA
    assert tickets.redeem(ticket) is None


def test_a_ticket_is_over_after_half_a_minute(tickets: Tickets, clock: SimClock):
    early, late = tickets.issue(ADA), tickets.issue(ADA)

    clock.advance(VALID_S - 0.001)
    before = tickets.redeem(early)
    clock.advance(0.001)

    assert before == ADA
    assert tickets.redeem(late) is None


def test_what_was_never_issued_is_nobodys(tickets: Tickets):
    tickets.issue(ADA)

    assert tickets.redeem("ticket1_") is None
    assert tickets.redeem("") is None


def test_tickets_of_somebody_who_is_locked_out_are_worth_nothing(tickets: Tickets):
    hers, his = tickets.issue(ADA), tickets.issue(BOB)

    tickets.forget("ada")

    assert (tickets.redeem(hers), tickets.redeem(his)) == (None, BOB)


def test_nobody_takes_all_of_them(tickets: Tickets, monkeypatch):
    monkeypatch.setattr(module, "EACH_MAX", 2)
    for _ in range(2):
        tickets.issue(ADA)

    with pytest.raises(Unavailable):
        tickets.issue(ADA)

    assert tickets.redeem(tickets.issue(BOB)) == BOB


def test_there_are_never_more_than_so_many(tickets: Tickets, clock: SimClock, monkeypatch):
    monkeypatch.setattr(module, "TICKETS_MAX", 3)
    for _ in range(3):
        tickets.issue(ADA)

    with pytest.raises(Unavailable):
        tickets.issue(ADA)
    clock.advance(VALID_S)

    assert tickets.redeem(tickets.issue(BOB)) == BOB
