"""Promise: what is said of jobs is read as it was written, and what is not ours is passed over."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.views.queue import codec
from strandline.views.queue.codec import (
    BURY,
    CLAIM,
    END,
    EXTEND,
    NACK,
    NO_SEQS,
    PAUSE,
    PLAIN,
    SURVEY,
    LeaseRecord,
    StoredJobOptions,
)
from strandline.views.queue.state import lease_snapshot

MOMENTS = st.integers(0, 2**63 - 1)
JOBS = st.builds(
    StoredJobOptions,
    priority=st.integers(0, 255),
    not_before=MOMENTS,
    expires=MOMENTS,
    unique=st.booleans(),
    group=st.binary(max_size=20),
    returned=st.just((0, 0)) | st.tuples(MOMENTS, st.integers(1, 2**63 - 1)),
)
SEQS = st.lists(st.integers(1, 2**62), unique=True, max_size=20)


@given(JOBS)
def test_a_job_is_read_as_it_was_written(job):
    assert codec.decode_job(codec.encode_job(job)) == job


def test_a_plain_job_needs_no_meta():
    assert codec.encode_job(PLAIN) is None
    assert codec.decode_job(None) == PLAIN


@given(st.binary(max_size=60), st.booleans())
def test_foreign_metas_are_plain_jobs_and_never_a_failure(meta, marked):
    found = codec.decode_job(b"\0job" + meta if marked else meta)

    assert 0 <= found.priority <= 255
    assert found.not_before >= 0
    assert found.expires >= 0
    if not marked and not meta.startswith(b"\0job"):
        assert found == PLAIN


@given(st.sampled_from([CLAIM, EXTEND]), SEQS, st.integers(0, 2**32 - 1), st.binary(max_size=128))
def test_a_grant_is_read_as_it_was_written(kind, seqs, lease_ms, worker):
    _check(LeaseRecord(kind, np.array(seqs, dtype=np.int64), lease_ms, worker))


@given(st.sampled_from([NACK, BURY]), SEQS, MOMENTS)
def test_a_nack_and_a_burial_are_read_as_they_were_written(kind, seqs, number):
    _check(LeaseRecord(kind, np.array(seqs, dtype=np.int64), number))


@given(SEQS, st.integers(0, 255))
def test_an_end_is_read_as_it_was_written(seqs, reason):
    _check(LeaseRecord(END, np.array(seqs, dtype=np.int64), reason))


def test_pauses_and_surveys_are_read_as_they_were_written():
    _check(LeaseRecord(PAUSE, NO_SEQS, 1))
    _check(LeaseRecord(SURVEY, NO_SEQS, 0, b"statement"))


def _check(word: LeaseRecord) -> None:
    found = codec.decode_lease_record(codec.encode_lease_record(word))
    assert found is not None
    assert (found.kind, found.number, found.text) == (word.kind, word.number, word.text)
    assert found.seqs.tolist() == word.seqs.tolist()


@given(st.binary(max_size=60), st.integers(0, 255))
def test_foreign_records_are_no_words_and_never_a_failure(data, kind):
    assert codec.decode_lease_record(b"x" + data) is None

    found = codec.decode_lease_record(b"\0ls" + bytes((kind,)) + data)

    if found is not None:
        assert len(set(found.seqs.tolist())) == len(found.seqs)
        assert min(found.seqs.tolist(), default=1) > 0
        if kind == SURVEY:
            assert lease_snapshot.decode(found.text) is None or data


@pytest.mark.parametrize("seqs", [[5, 5], [3, 1, 3], [0], [-1, 4], [4, 0]])
def test_what_names_a_job_twice_or_none_at_all_is_no_word(seqs):
    data = codec.encode_lease_record(LeaseRecord(END, np.array(seqs, dtype=np.int64)))

    assert codec.decode_lease_record(data) is None


def test_a_record_speaks_of_a_limited_number_of_jobs():
    too_many = np.arange(1, codec.JOBS_MAX + 2)

    assert (
        codec.decode_lease_record(codec.encode_lease_record(LeaseRecord(END, too_many[:-1])))
        is not None
    )
    assert codec.decode_lease_record(codec.encode_lease_record(LeaseRecord(END, too_many))) is None
