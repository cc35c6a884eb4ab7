"""Promise: scopes decide as the naive reading of their text does, and gifts never go beyond."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strandline.security.scopes import ACTIONS, Scope, Scopes, parse

WORDS = ["a", "ab", "a.b", "a:b", "a:b:c", "b", "ab:x"]
names = st.one_of(st.sampled_from(WORDS), st.text("ab.:", min_size=1, max_size=5).map("a".__add__))
patterns = st.one_of(names, names.map(lambda name: name + "*"), st.just("*"))
actions = st.sampled_from(ACTIONS[:3])
scope = st.builds(
    lambda chosen, pattern, deny: Scope(
        actions=tuple(each for each in ACTIONS if each in chosen), pattern=pattern, deny=deny
    ),
    st.sets(actions, min_size=1),
    patterns,
    st.booleans(),
)
lists = st.lists(scope, max_size=5)


def naive(each: list[Scope], action: str, topic: str) -> bool:
    """What the header of scopes.py says, without any cleverness."""
    bases = [topic] + [topic[:place] for place, letter in enumerate(topic) if letter == ":"]

    def matches(pattern: str, name: str) -> bool:
        return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern

    allowed = denied = False
    for one in each:
        if action not in one.actions:
            continue
        if one.deny:
            denied |= any(matches(one.pattern, base) for base in bases)
        elif action == "read":
            allowed |= any(matches(one.pattern, base) for base in bases)
        else:
            allowed |= matches(one.pattern, topic)
    return allowed and not denied


@given(lists, actions, st.one_of(names, st.just("")))
def test_scopes_decide_as_the_naive_reading_does(each: list[Scope], action, topic: str):
    assert Scopes(each).allow(action, topic) == naive(each, action, topic)


@given(lists, lists, st.lists(names, min_size=1))
def test_what_is_covered_never_allows_more(giver: list[Scope], gift: list[Scope], topics):
    if not Scopes(giver).cover(Scopes(gift)):
        return

    beyond = [
        (action, topic)
        for action in ACTIONS
        for topic in [*topics, *WORDS, ""]
        if naive(gift, action, topic) and not naive(giver, action, topic)
    ]

    assert beyond == []


@given(st.lists(scope, min_size=1, max_size=5))
def test_text_says_the_same(each: list[Scope]):
    assert parse(str(Scopes(each))) == Scopes(each)
