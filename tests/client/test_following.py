"""Promise: who follows a topic of a server is never given another topic's records unasked."""

from __future__ import annotations

import pytest

import strandline
from strandline import RecordsLost, UnknownTopic


def test_a_topic_that_was_made_anew_meanwhile_is_told(server, name):
    server.store.topic(name).append(b"old")
    with strandline.connect(server.url) as store:
        records = store.topic(name).follow(timeout_s=30)
        assert next(records).data == b"old"
        server.store.delete_topic(name)
        server.store.topic(name).append_many([b"new", b"newer"])

        with pytest.raises(RecordsLost) as lost:
            next(records)

    assert lost.value.reason == "recreated"


def test_a_topic_that_is_gone_ends_who_follows_it(server, name):
    server.store.topic(name).append(b"old")
    with strandline.connect(server.url) as store:
        records = store.topic(name).follow(timeout_s=30)
        next(records)
        server.store.delete_topic(name)

        with pytest.raises(UnknownTopic):
            next(records)


@pytest.mark.parametrize("count", [10, 2500])
def test_few_and_many_records_come_in_order(server, name, count):
    topic = server.store.topic(name)
    with strandline.connect(server.url) as store:
        records = store.topic(name).follow(timeout_s=0)
        topic.append_many([b"%d" % number for number in range(count)])

        assert [record.seq for record in records] == list(range(1, count + 1))


def test_a_page_over_several_answers_ends_before_a_gap(server, name):
    topic = server.store.topic(name)
    topic.append_many([b"x" * 1000] * 3000)
    with strandline.connect(server.url) as store:
        page = store.topic(name).read(0, 3000)

        assert len(page) == 3000
        assert page.tombstone is None
        topic.alter(cap_records=10)
        late = store.topic(name).read(0, 3000)

    assert late.tombstone.gap_to == 2990
    assert len(late) == 10
