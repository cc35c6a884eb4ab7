"""Promise: what a user of the command language may do over HTTP is what commands let him do."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.query.access.permissions import Rights
from strandline.query.access.users import User
from strandline.security.scopes import ACTIONS, EVERYTHING
from strandline.security.user_principals import BasicLogin, login_of, scopes_of

EVENTS = ["pay", "view", "other"]
roles = st.lists(st.sampled_from(["editor", "read-only", "viewer", "write-only"]), unique=True)
granted = st.lists(st.sampled_from(["READ", "WRITE"]), unique=True).map(sorted)
grants = st.dictionaries(st.sampled_from(EVENTS[:2]), granted.map(tuple))


@given(roles, grants)
def test_read_and_write_are_decided_as_rights_decide_them(of_role, events):
    user = User(id="ada", roles=tuple(of_role), events=events, active=True)
    rights = Rights(roles=tuple(of_role), events=events)

    scopes = scopes_of(user)

    for event in EVENTS:
        may = (rights.may("READ", event), rights.may("WRITE", event))
        assert (scopes.allow("read", event), scopes.allow("write", event)) == may
        assert scopes.allow("consume", event) == all(may)


@given(roles, grants)
def test_all_else_is_for_admins(of_role, events):
    scopes = scopes_of(User(id="ada", roles=tuple(of_role), events=events, active=True))

    others = [action for action in ACTIONS if action not in ("read", "write", "consume")]
    assert not any(scopes.allow(action, name) for action in others for name in ("", *EVENTS))


def test_an_admin_may_do_all():
    user = User(id="ada", roles=("admin",), events={"pay": ()}, active=True)

    assert scopes_of(user) == EVERYTHING


@pytest.mark.parametrize(
    ("text", "login"),
    [
        (b"ada:key", BasicLogin("ada", "key")),
        (b"ada:k:e:y", BasicLogin("ada", "k:e:y")),
        (b"ada:", BasicLogin("ada", "")),
        (b"ada", None),
        (b"\xff:\xff", None),
    ],
)
def test_a_login_is_a_name_and_a_key_with_a_colon_between(text: bytes, login):
    assert login_of(base64.b64encode(text).decode()) == login


@pytest.mark.parametrize("text", ["", "!!", "YWRh", "YWRhOmtleQ", "YWRhOmtleQ==\n"])
def test_what_is_no_login_is_none(text: str):
    assert login_of(text) is None
