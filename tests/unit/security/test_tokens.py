"""Promise: a token is 256 bits that nobody can read again, and a look at one tells nothing."""

from __future__ import annotations

import itertools

import pytest

from strandline.errors import Invalid
from strandline.security import tokens
from strandline.security.tokens import Token, TokenParts

NOW_US = 1_800_000_000_000_000


@pytest.fixture
def random_id():
    numbers = itertools.count(1)
    return lambda: (next(numbers) * 0x0123456789ABCDEF0123456789).to_bytes(16, "big")[-16:]


def kept(text: str, **options: object) -> Token:
    given = tokens.split_token(text)
    fields = {
        "id": given.id,
        "principal": "ci",
        "digest": tokens.digest_of(given.secret),
        "scopes": "read",
        "label": "",
        "creator": "local",
        "created_us": NOW_US,
        "not_before_us": NOW_US,
        "expires_us": NOW_US + tokens.VALID_US,
    }
    return Token(**(fields | options))


def test_a_token_has_the_form_that_is_promised(random_id):
    text, given = tokens.make(random_id)

    assert len(text) == len("strand1_") + 12 + 1 + 43 + 1 + 6
    assert text.startswith(f"strand1_{given.id}_{given.secret}_")
    assert tokens.split_token(text) == given


def test_the_secret_has_every_bit_of_32_random_bytes():
    one = iter([bytes(range(16)), b"\xff" * 16, b"\x7f" * 16])
    two = iter([bytes(range(16)), b"\xff" * 16, b"\x7e" * 16])

    _, given = tokens.make(lambda: next(one))
    _, other = tokens.make(lambda: next(two))

    assert given.id == other.id
    assert given.secret != other.secret


def test_any_mistyped_letter_is_noticed(random_id):
    text, _ = tokens.make(random_id)

    taken = [
        place
        for place in range(len(text))
        for letter in "aZ2_-"
        if letter != text[place]
        and tokens.split_token(text[:place] + letter + text[place + 1 :]) is not None
    ]

    assert taken == []


@pytest.mark.parametrize(
    "change", [str.upper, str.swapcase, lambda text: text + "\n", lambda _: ""]
)
def test_what_is_no_token_is_none(random_id, change):
    text, _ = tokens.make(random_id)

    assert tokens.split_token(change(text)) is None


def test_only_the_right_secret_finds_a_token(random_id):
    text, _ = tokens.make(random_id)
    other, _ = tokens.make(random_id)
    known = {kept(text).digest: kept(text)}

    assert tokens.find(text, known) == kept(text)
    assert tokens.find(_with_secret_of(text, other), known) is None
    assert tokens.find(other, known) is None
    assert tokens.find(_with_secret_of(other, text), known) is None
    assert tokens.find("", known) is None


def test_a_look_takes_the_same_steps_whatever_is_wrong(random_id, monkeypatch):
    steps: list[str] = []
    for step in ("digest_of", "same_digest"):
        real = getattr(tokens, step)
        monkeypatch.setattr(
            tokens, step, lambda *given, s=step, real=real: steps.append(s) or real(*given)
        )
    text, _ = tokens.make(random_id)
    other, _ = tokens.make(random_id)
    known = {kept(text).digest: kept(text)}
    steps.clear()

    taken = {}
    for name, asked in {
        "right": text,
        "wrong secret": _with_secret_of(text, other),
        "unknown id": other,
        "mistyped": text[:-1] + ("A" if text[-1] != "A" else "B"),
        "no token": "hunter2",
    }.items():
        tokens.find(asked, known)
        taken[name] = tuple(steps)
        steps.clear()

    assert set(taken.values()) == {("digest_of", "same_digest")}


def test_digests_are_compared_in_constant_time():
    assert "compare_digest" in tokens.same_digest.__code__.co_names


def test_the_stand_in_for_an_unknown_token_never_lets_anybody_in():
    assert tokens.UNKNOWN_TOKEN.invalid_reason(NOW_US)
    assert tokens.find("", {tokens.digest_of(""): tokens.UNKNOWN_TOKEN}) is None


@pytest.mark.parametrize(
    ("options", "now_us", "reason"),
    [
        ({}, NOW_US, ""),
        ({}, NOW_US + tokens.VALID_US - 1, ""),
        ({}, NOW_US + tokens.VALID_US, "expired"),
        ({}, NOW_US - 1, "not valid yet"),
        ({"revoked_us": NOW_US}, NOW_US, "revoked"),
        ({"revoked_us": NOW_US + 99}, NOW_US, "revoked"),
    ],
)
def test_a_token_is_valid_from_its_beginning_to_its_end_unless_revoked(
    random_id, options, now_us, reason
):
    token = kept(tokens.make(random_id)[0], **options)

    assert reason in token.invalid_reason(now_us)
    assert bool(reason) == bool(token.invalid_reason(now_us))


@pytest.mark.parametrize("days", [0, -1, 367])
def test_nobody_makes_a_token_for_longer_than_a_year(days: int):
    with pytest.raises(Invalid, match="at most 366 days"):
        tokens.checked_valid_us(days * tokens.DAY_US)


def test_logs_get_the_id_and_never_the_secret(random_id):
    text, given = tokens.make(random_id)

    shown = tokens.redact(f"GET /?token={text}&x=1, again {text[:30]}, ticket1_abc-DEF_1 end")

    assert given.secret[:8] not in shown
    assert "ticket1_*** end" in shown
    assert "abc" not in shown
    assert shown.startswith(f"GET /?token=strand1_{given.id}_***&x=1")


def _with_secret_of(text: str, other: str) -> str:
    """A well-formed token with the id of one and the secret of another."""
    one, two = tokens.split_token(text), tokens.split_token(other)
    mixed = TokenParts(one.id, two.secret)
    said = f"{tokens.PREFIX}_{mixed.id}_{mixed.secret}"
    return f"{said}_{tokens._checksum(said)}"
