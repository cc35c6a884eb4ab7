"""Bugs to plant on the way by which batches of other processes come into a topic, exactly once."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

DELIVERIES = {
    "forget a delivery before its rows are synced": Mutant(
        "inbox.inbox:Inbox._take",
        "self._sync()",
        "pass",
        "test_delivery_crash",
        "test_a_crash_at_any_step_of_a_delivery_appends_it_exactly_once[disk-power loss-folder]",
    ),
    "take a delivery for taken when its first chunk is": Mutant(
        "inbox.delivery:Delivery.is_taken",
        "<< CHUNK_BITS | _LAST_PLACE",
        "<< CHUNK_BITS",
        "test_delivery_crash",
        "test_a_crash_between_two_chunks_goes_on_behind_the_first",
    ),
    "miss that the last chunk was taken": Mutant(
        "inbox.delivery:Delivery.is_taken",
        "newest >= self",
        "newest > self",
        "unit/inbox/test_delivery",
        "test_a_delivery_is_taken_when_its_last_chunk_is_however_it_was_cut",
    ),
    "number the last chunk by its place": Mutant(
        "inbox.delivery:Delivery.chunk",
        "if place == self.chunks - 1:",
        "if False:",
        "unit/inbox/test_inbox",
        "test_a_number_that_comes_again_in_other_chunks_is_recognised[3]",
    ),
    "give deliveries to two topics one name": Mutant(
        "inbox.delivery:name_of",
        "{topic} {producer}",
        "{producer}",
        "unit/inbox/test_inbox",
        "test_producers_and_topics_do_not_meet",
    ),
    "let a later number pass one that waits": Mutant(
        "inbox.inbox:Inbox.run_once",
        "if series in failures:",
        "if False:",
        "unit/inbox/test_inbox",
        "test_a_later_number_does_not_pass_one_that_waits",
    ),
    "append before all rows are checked": Mutant(
        "inbox.inbox:Inbox._take",
        "self._check_rows(delivery, topic)",
        "pass",
        "unit/inbox/test_inbox",
        "test_what_cannot_be_appended_is_refused_whole_and_holds_up_nobody",
    ),
    "append a part of what a cap never allows": Mutant(
        "topic.topic:Topic.check_arrow",
        "check_alone(self._state, of_arrow(batch, None, self._limits))",
        "of_arrow(batch, None, self._limits)",
        "unit/inbox/test_inbox",
        "test_a_chunk_that_a_cap_never_allows_refuses_all_of_it",
    ),
    "remove a leftover that is delivered": Mutant(
        "inbox.inbox:Inbox._remove_leftovers",
        " if key not in named",
        "",
        "unit/inbox/test_inbox",
        "test_leftovers_go_after_a_week_and_never_a_file_that_is_delivered",
    ),
    "refuse a delivery for a bit that flips on the way": Mutant(
        "inbox.staging:_read",
        "range(2)",
        "range(1)",
        "unit/inbox/test_staging",
        "test_bytes_that_change_on_the_way_once_are_read_again",
    ),
    "discard what is delivered": Mutant(
        "pipelines.deliver:discard",
        " - {file.key for file in delivered}",
        "",
        "unit/pipelines/test_deliver",
        "test_discard_removes_what_was_never_delivered_and_nothing_else",
    ),
    "remove the files of a delivery that is made again": Mutant(
        "pipelines.deliver:deliver",
        "discard(store, topic, files, producer=producer, number=number, lake=lake)",
        "open_objects(lake_of(store, lake)).delete([file.key for file in files])",
        "unit/pipelines/test_deliver",
        "test_delivering_the_same_files_again_does_no_harm[another]",
    ),
    "take a number twice": Mutant(
        "topic.append:_taken",
        "number > newest[0]",
        "number >= newest[0]",
        "unit/topic/test_numbered",
        "test_a_number_is_taken_once",
    ),
    "acknowledge an older number before its sync": Mutant(
        "topic.append:_known",
        "last_seq or appended.head_seq",
        "last_seq",
        "unit/topic/test_numbered",
        "test_a_repeated_number_is_acknowledged_only_after_its_sync",
    ),
    "tell in a root of numbers that are not synced": Mutant(
        "topic.roots:Roots.write",
        "shard.committer.wait_synced(shard.writer.end_lsn)",
        "pass",
        "unit/topic/test_numbered",
        "test_a_number_comes_with_its_rows_or_not_at_all_through_a_power_loss",
    ),
    "forget numbers at a checkpoint": Mutant(
        "topic.roots:entry_of",
        "(state.producers or {}).items()",
        "{}.items()",
        "unit/topic/test_numbered",
        "test_a_number_is_known_to_every_later_opening",
    ),
}
