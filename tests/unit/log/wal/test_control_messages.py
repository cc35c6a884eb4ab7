"""Promise (C10): a control message comes back as it was, or it is refused, never misread."""

from __future__ import annotations

import contextlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.log.wal import control_messages
from strandline.testing import strategies

U64 = st.integers(0, 2**64 - 1)
texts = st.text(max_size=20)
messages = st.one_of(
    st.builds(control_messages.TopicCreated, texts, strategies.configs(), U64),
    st.builds(control_messages.TopicAltered, strategies.configs(), U64, texts),
    st.builds(control_messages.TopicDeleted),
    st.builds(control_messages.RecordsDeleted, U64, st.binary(max_size=64)),
    st.builds(control_messages.Evicted, U64, texts),
    st.builds(control_messages.Ceiling, U64),
    st.builds(control_messages.TailLost, U64, U64, U64, texts),
    st.builds(control_messages.Checkpointed, U64, U64),
    st.builds(control_messages.ClosedCleanly),
)


@given(messages)
def test_a_control_message_comes_back_as_it_was(message):
    assert control_messages.decode(control_messages.encode(message)) == message


@given(messages, st.data())
def test_a_garbled_message_is_refused_or_read_as_some_message(message, data):
    garbled = data.draw(strategies.garbled(control_messages.encode(message)))

    with contextlib.suppress(msgspec.DecodeError):
        assert isinstance(control_messages.decode(garbled), control_messages.Control)


@given(messages)
def test_no_beginning_of_a_message_is_one(message):
    whole = control_messages.encode(message)

    for size in range(len(whole)):
        with pytest.raises(msgspec.DecodeError):
            control_messages.decode(whole[:size])


@given(st.binary(max_size=100))
def test_garbage_is_refused(data):
    with contextlib.suppress(msgspec.DecodeError):
        assert isinstance(control_messages.decode(data), control_messages.Control)


def test_a_message_of_a_newer_version_is_refused():
    with pytest.raises(msgspec.DecodeError):
        control_messages.decode(msgspec.msgpack.encode(["router", 1, 2]))
