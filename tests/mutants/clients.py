"""Mutants of clients: what makes an append land once, a follower see all, and an answer honest."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

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
        "next(self._sent)",
        "1",
        RETRIES,
        "test_every_append_has_a_key_of_its_own",
    ),
    "client: an append is repeated without a key": Mutant(
        "client.blocking.topic:RemoteTopic._terms",
        "self._connection.new_key() if once is None else once",
        "once",
        CUTS,
        "test_an_append_whose_answer_is_lost_lands_once[1]",
    ),
    "client: what may have been done is done again": Mutant(
        "client.exchange:Patience.pause_after",
        "error.undone or self._ask.safe",
        "True",
        RETRIES,
        "test_what_may_have_been_done_is_not_done_again[trouble0]",
    ),
    "client: a forgotten key is relied on": Mutant(
        "client.exchange:Patience.pause_after",
        "if self.perhaps_done and self._known_until is not None and then >= self._known_until:",
        "if False:",
        RETRIES,
        "test_an_append_is_not_repeated_when_its_key_may_be_forgotten",
    ),
    "client: a failing store is taken for one that refused": Mutant(
        "client.exchange:refused",
        'problem.code in _REFUSED_AT_THE_DOOR and "kind" not in problem.detail',
        "True",
        RETRIES,
        "test_what_may_have_been_done_is_not_done_again[trouble1]",
    ),
    "client: waits however long it is told": Mutant(
        "client.exchange:Patience.pause_after",
        "if then >= self._until:",
        "if now >= self._until:",
        RETRIES,
        "test_a_pause_beyond_the_patience_is_not_waited_for",
    ),
    "client: who is shut out tries on": Mutant(
        "client.exchange:refused",
        "isinstance(error, Closed) and ask.closed_is_final",
        "False",
        RETRIES,
        "test_a_member_that_is_shut_out_is_told_at_once",
    ),
    "client: a repeated ack is guessed to be late": Mutant(
        "client.blocking.queue:RemoteQueue._settle",
        "if told.skipped and reply.repeated",
        "if False",
        RETRIES,
        "test_an_ack_that_is_repeated_in_vain_is_not_guessed",
    ),
    "client: an own key that is known is told as somebody else's": Mutant(
        "client.blocking.topic:RemoteTopic._append",
        "told.deduped and once is not None",
        "told.deduped",
        RETRIES,
        "test_an_append_is_made_again_with_the_same_key[trouble0]",
    ),
    "client: a follower forgets which life of the topic it reads": Mutant(
        "client.blocking.following:RemoteFollowing._look",
        "page.next, page.epoch, len(page)",
        "page.next, None, len(page)",
        FOLLOWING,
        "test_a_topic_that_was_made_anew_meanwhile_is_told",
    ),
    "client: a follower jumps to the head": Mutant(
        "client.blocking.following:RemoteFollowing._look",
        "self._many = page.next,",
        "self._many = page.head_seq,",
        FOLLOWING,
        "test_few_and_many_records_come_in_order[2500]",
    ),
    "client: a follower asks again and again": Mutant(
        "client.blocking.following:RemoteFollowing._listen",
        "if self._left_s() <= 0:",
        "if True:",
        FOLLOWING,
        "test_new_records_are_told_and_not_asked_for",
    ),
    "client: a follower takes what SSE has changed": Mutant(
        "client.blocking.following:RemoteFollowing._taken",
        "if has_hole or not event.is_exact:",
        "if has_hole:",
        FOLLOWING,
        'test_bytes_are_told_as_they_were_appended[{"a":1,\\r\\n"b":2}]',
    ),
    "client: a follower repeats what came before its stream broke": Mutant(
        "client.sse:ToldRecords.behind",
        " if each.seq > after",
        "",
        "client/test_sse",
        "test_records_that_the_reader_has_are_left_out",
    ),
    "client: a forked child uses its parent's connections": Mutant(
        "client.blocking.connection:RemoteConnection.forked",
        "self._http = self._fresh()",
        "pass",
        CONNECTION,
        "test_a_forked_child_has_connections_of_its_own",
    ),
    "client: a token that is wrong is told": Mutant(
        "client.credentials:checked_token",
        '"this is no token:',
        'f"{token} is no token:',
        CONNECTION,
        "test_what_is_no_token_is_refused_and_not_told[two words]",
    ),
    "client: a transaction forgets what it has read": Mutant(
        "client.blocking.transaction:RemoteTransaction.commit",
        "for key, now in self._seen.items()",
        "for key, now in ()",
        KV,
        "test_a_transaction_whose_reads_have_changed_writes_nothing[blocking]",
    ),
    "client: deep JSON is sent as it is": Mutant(
        "client.pairs:is_shallow",
        "return False",
        "return True",
        TOPICS,
        "test_bytes_are_kept_as_they_are[blocking-data6-1]",
    ),
    "client: a claim of many asks once": Mutant(
        "client.blocking.queue:RemoteQueue.claim",
        "enough = len(found) >= max",
        "enough = found or len(found) >= max",
        QUEUES,
        "test_a_claim_gives_at_most_so_many_of_any_number[blocking]",
    ),
}
