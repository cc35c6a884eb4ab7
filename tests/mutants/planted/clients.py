"""Mutants of clients: an append lands once, a follower receives every record."""

from __future__ import annotations

from tests.mutants.mutant import Mutant
from tests.mutants.operators import Drop, Force, Remove, Replace, Set, Use

RETRIES = "client/test_retries"
CONNECTION = "client/test_connection"
FOLLOWING = "client/test_following"
CUTS = "client/test_cut_connections"
TOPICS = "conformance/faces/test_topics"
KV = "conformance/faces/test_kv"
QUEUES = "conformance/faces/test_queues"


CLIENTS = {
    "client: all appends have one key": Mutant(
        "client.blocking.connection:RemoteConnection.new_key",
        Set("Return 1", "return f(_, _(_))", "Call 1", 1),
        RETRIES,
        "test_every_append_has_a_key_of_its_own",
    ),
    "client: an append is repeated without a key": Mutant(
        "client.blocking.topic:RemoteTopic._terms",
        Use("Return 1", "return _(_, _() if _ is None else _)", "IfExp 1", "Name 3"),
        CUTS,
        "test_an_append_whose_answer_is_lost_lands_once[1]",
    ),
    "client: what may have been done is done again": Mutant(
        "client.request:RequestRetryPolicy.pause_after",
        Set("If 2", "if not (_ or _):", "BoolOp 1", True),
        RETRIES,
        "test_what_may_have_been_done_is_not_done_again[trouble0]",
    ),
    "client: a forgotten key is relied on": Mutant(
        "client.request:RequestRetryPolicy.pause_after",
        Force("If 5", "if _ and _ is not None and (_ >= _):", False),
        RETRIES,
        "test_an_append_is_not_repeated_when_its_key_may_be_forgotten",
    ),
    "client: a failing store is taken for one that refused": Mutant(
        "client.request:rejection_failure",
        Set("Assign 3", "_ = _ in _ and '' not in _", "BoolOp 1", True),
        RETRIES,
        "test_what_may_have_been_done_is_not_done_again[trouble1]",
    ),
    "client: waits however long it is told": Mutant(
        "client.request:RequestRetryPolicy.pause_after",
        Use("If 4", "if _ >= _:", "Name 1", "Assign 2: Name 1", others=("_ = _()",)),
        RETRIES,
        "test_a_pause_beyond_the_patience_is_not_waited_for",
    ),
    "client: who is shut out tries on": Mutant(
        "client.request:rejection_failure",
        Set("Assign 5", "_ = _(_, _) and _", "BoolOp 1", False),
        RETRIES,
        "test_a_member_that_is_shut_out_is_told_at_once",
    ),
    "client: a repeated ack is guessed to be late": Mutant(
        "client.blocking.queue:RemoteQueue._finish",
        Replace("If 1", "if _ and _ and (_ != ''):", "BoolOp 1", "False and {Compare 1}"),
        RETRIES,
        "test_an_ack_that_is_repeated_in_vain_is_not_guessed",
    ),
    "client: an own key that is known is told as somebody else's": Mutant(
        "client.blocking.topic:RemoteTopic._append",
        Drop("Assign 4", "_ = _ and _ is not None", "Compare 1"),
        RETRIES,
        "test_an_append_is_made_again_with_the_same_key[trouble0]",
    ),
    "client: a follower forgets which life of the topic it reads": Mutant(
        "client.blocking.follow:RemoteFollower._read_page",
        Set("Assign 6", "_, _, _ = (_, _, _(_) >= _)", "Attribute 5", None),
        FOLLOWING,
        "test_a_topic_that_was_made_anew_meanwhile_is_told",
    ),
    "client: a follower jumps to the head": Mutant(
        "client.blocking.follow:RemoteFollower._read_page",
        Replace(
            "Assign 6",
            "_, _, _ = (_, _, _(_) >= _)",
            "Attribute 4",
            "{Name 4}.{name 1}",
            names=("log.read.page:Page.head_seq",),
        ),
        FOLLOWING,
        "test_few_and_many_records_come_in_order[2500]",
    ),
    "client: a follower asks again and again": Mutant(
        "client.blocking.follow:RemoteFollower._read_event",
        Force("If 1", "if _() <= 0:", True),
        FOLLOWING,
        "test_new_records_are_told_and_not_asked_for",
    ),
    "client: a follower takes what SSE has changed": Mutant(
        "client.blocking.follow:RemoteFollower._apply",
        Drop("If 1", "if _ or not _:", "UnaryOp 1"),
        FOLLOWING,
        'test_bytes_are_told_as_they_were_appended[{"a":1,\\r\\n"b":2}]',
    ),
    "client: a follower repeats what came before its stream broke": Mutant(
        "client.sse:RecordsMessage.records_after",
        Drop("Assign 1", "_ = [_(_) for _ in _ if _ > _]", "Compare 1"),
        "client/test_sse",
        "test_records_that_the_reader_has_are_left_out",
    ),
    "client: a forked child uses its parent's connections": Mutant(
        "client.blocking.connection:RemoteConnection.forked",
        Remove("Assign 2", "_ = _()"),
        CONNECTION,
        "test_a_forked_child_has_connections_of_its_own",
    ),
    "client: a token that is wrong is told": Mutant(
        "client.credentials:checked_token",
        Replace(
            "Raise 2",
            "raise _('')",
            "Constant 1",
            ("f'{{arg 1}} is no token: it has blanks, line ends or letters that no token has'"),
        ),
        CONNECTION,
        "test_what_is_no_token_is_refused_and_not_told[two words]",
    ),
    "client: a transaction forgets what it has read": Mutant(
        "client.blocking.transaction:RemoteTransaction.commit",
        Set("Assign 2", "_ = [_(**_(_), _=0 if _ is None else _) for _, _ in _()]", "Call 3", ()),
        KV,
        "test_a_transaction_whose_reads_have_changed_writes_nothing[blocking]",
    ),
    "client: deep JSON is sent as it is": Mutant(
        "client.bytes_fields:is_shallow",
        Set("Return 1", "return False", "Constant 1", True),
        TOPICS,
        "test_bytes_are_kept_as_they_are[blocking-data6-1]",
    ),
    "client: a claim of many asks once": Mutant(
        "client.blocking.queue:RemoteQueue.claim",
        Replace(
            "Assign 8",
            "_ = _(_) >= _ or (_ and _(_) < _)",
            "BoolOp 1",
            "{Name 3} or {Compare 1} or {BoolOp 2}",
        ),
        QUEUES,
        "test_a_claim_gives_at_most_so_many_of_any_number[blocking]",
    ),
}
