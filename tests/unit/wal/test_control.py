"""Promise (C10): a control message comes back as it was, or it is refused, never misread."""

from __future__ import annotations

import contextlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.testing import strategies
from strandline.wal import control

U64 = st.integers(0, 2**64 - 1)
texts = st.text(max_size=20)
messages = st.one_of(
    st.builds(control.TopicCreated, texts, strategies.configs(), U64),
    st.builds(control.TopicAltered, strategies.configs(), U64, texts),
    st.builds(control.TopicDeleted),
    st.builds(control.RecordsDeleted, U64, st.binary(max_size=64)),
    st.builds(control.Evicted, U64, texts),
    st.builds(control.Ceiling, U64),
    st.builds(control.TailLost, U64, U64, U64, texts),
    st.builds(control.Checkpointed, U64, U64),
    st.builds(control.ClosedCleanly),
)


@given(messages)
def test_a_control_message_comes_back_as_it_was(message):
    assert control.decode(control.encode(message)) == message


@given(messages, st.data())
def test_a_garbled_message_is_refused_or_read_as_some_message(message, data):
    garbled = data.draw(strategies.garbled(control.encode(message)))

    with contextlib.suppress(msgspec.DecodeError):
        assert isinstance(control.decode(garbled), control.Control)


@given(messages)
def test_no_beginning_of_a_message_is_one(message):
    whole = control.encode(message)

    for size in range(len(whole)):
        with pytest.raises(msgspec.DecodeError):
            control.decode(whole[:size])


@given(st.binary(max_size=100))
def test_garbage_is_refused(data):
    with contextlib.suppress(msgspec.DecodeError):
        assert isinstance(control.decode(data), control.Control)


def test_a_message_of_a_newer_version_is_refused():
    with pytest.raises(msgspec.DecodeError):
        control.decode(msgspec.msgpack.encode(["router", 1, 2]))
