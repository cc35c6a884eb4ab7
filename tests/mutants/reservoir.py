"""Mutants of the reservoir: what makes checkpoints whole, checked, fenced and kept."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

CALLS = "test_reservoir_calls"
WRITERS = "test_reservoir_writers"
POWER = "test_reservoir_power"
KEPT = "test_reservoir_kept"
DAMAGE = "corruption/test_reservoir"
IDENTITY = "corruption/test_reservoir_identity"
FALLBACK = "corruption/test_reservoir_fallback"
FLIPPED = "test_any_flipped_bit_is_noticed_or_of_no_use[an increment is the newest-some]"
REPEATED = "test_who_repeats_a_failed_call_loses_and_invents_nothing"

RESERVOIR = {
    "leave the page's id out of its checksum": Mutant(
        "reservoir.codec:page_checksum",
        "page_id * _PAGE_FACTOR + ",
        "",
        IDENTITY,
        "test_the_checksum_of_a_page_covers_its_bytes_its_id_and_its_file",
    ),
    "leave the file's id out of a page's checksum": Mutant(
        "reservoir.codec:page_checksum",
        " + file_id * _FILE_FACTOR",
        "",
        IDENTITY,
        "test_the_checksum_of_a_page_covers_its_bytes_its_id_and_its_file",
    ),
    "reckon many checksums in another way": Mutant(
        "reservoir.codec:page_checksums",
        "seeds += np.uint64(file_id * _FILE_FACTOR & _MASK)",
        "pass",
        IDENTITY,
        "test_many_checksums_are_those_of_each_page",
    ),
    "take any whole file for the one that is listed": Mutant(
        "reservoir.codec:check_file",
        "if (header.reservoir_id, header.file_id) != (reservoir_id, file_id):",
        "if False:",
        IDENTITY,
        "test_a_whole_file_with_the_right_checksum_must_say_who_it_is[reservoir]",
    ),
    "give a page without its checksum": Mutant(
        "reservoir.reading:PageReader.read",
        "if page_checksum(data, page_id, file_id) == checksum:",
        "if data:",
        DAMAGE,
        FLIPPED,
    ),
    "believe a checkpoint without its checksum": Mutant(
        "reservoir.recovery:_checked",
        "if crc64(section) != row.crc64:",
        "if False:",
        DAMAGE,
        FLIPPED,
    ),
    "believe a registry without its checksum": Mutant(
        "reservoir.recovery:_read_end",
        "if crc64(stored) != footer.registry_crc:",
        "if False:",
        DAMAGE,
        FLIPPED,
    ),
    "take another reservoir's snapshot": Mutant(
        "reservoir.recovery:_check_kin",
        "if strangers:",
        "if False:",
        DAMAGE,
        "test_an_object_of_another_reservoir_in_its_place_is_noticed[a snapshot is]",
    ),
    "take a version that stands under another's name": Mutant(
        "reservoir.recovery:_read_end",
        """\
    if footer.version != version:
        raise _foreign(objects, version, f"it says version {footer.version}")
""",
        "    version = footer.version\n",
        DAMAGE,
        "test_another_valid_object_in_its_place_is_noticed[a snapshot is]",
    ),
    "open data files without checkpoints as an empty reservoir": Mutant(
        "reservoir.recovery:_check_listing",
        "if not listed.checkpoints and listed.data_files:",
        "if False:",
        DAMAGE,
        "test_data_files_without_any_checkpoint_are_no_empty_reservoir",
    ),
    "copy pages of a file without checking them": Mutant(
        "reservoir.compaction:move",
        """\
    codec.check_file(data, label, reservoir_id=identity, file_id=ref.file_id, crc=ref.crc64)
    _, ids, offsets = codec.decode_index(data, label)
    with pool.lock:
        rows = pool.state.pages.find_many(ids)
    here = (rows["file_id"] == ref.file_id) & (rows["offset"] == offsets[:-1])
    moved: dict[int, bytes] = {}
    for at in np.flatnonzero(here).tolist():
        page_id = int(ids[at])
        if pool.is_waiting(page_id):
            continue  # a newer one is on its way
        stored = data[offsets[at] : offsets[at + 1]]
        if codec.page_checksum(stored, page_id, ref.file_id) != rows[at]["checksum"]:
            raise Corrupt(f"page {page_id} fails its checksum", path=label, offset=int(offsets[at]))
""",
        """\
    _, ids, offsets = codec.decode_index(data, label)
    with pool.lock:
        rows = pool.state.pages.find_many(ids)
    here = (rows["file_id"] == ref.file_id) & (rows["offset"] == offsets[:-1])
    moved: dict[int, bytes] = {}
    for at in np.flatnonzero(here).tolist():
        page_id = int(ids[at])
        if pool.is_waiting(page_id):
            continue  # a newer one is on its way
        stored = data[offsets[at] : offsets[at + 1]]
""",
        DAMAGE,
        "test_damage_is_never_copied_into_a_new_file[some]",
    ),
    "pass a store that does not answer for a damaged one": Mutant(
        "reservoir.recovery:_newest_whole",
        "except (Corrupt, NotFound) as error:",
        "except Exception as error:",
        FALLBACK,
        "test_a_store_that_does_not_answer_is_no_damage",
    ),
    "believe the first damaged answer": Mutant(
        "reservoir.recovery:_again",
        """\
    except Corrupt:
        return fetch()
""",
        """\
    except Corrupt:
        raise
""",
        FALLBACK,
        "test_a_bit_that_flips_on_the_way_is_no_damage",
    ),
    "forget that a damaged version may need what is there": Mutant(
        "reservoir.opening:_take_over",
        "made.kept_term = version",
        "pass",
        FALLBACK,
        "test_what_a_damaged_version_may_need_is_not_deleted_by_anybody",
    ),
    "delete garbage that a damaged version may need": Mutant(
        "reservoir.garbage:old_files",
        "and keys.origin_of(file_id) > state.kept_term",
        "",
        FALLBACK,
        "test_who_repairs_the_damage_can_still_read_what_was_passed_over",
    ),
    "delete files that a kept version needs": Mutant(
        "reservoir.garbage:old_files",
        "oldest = state.version - keep_versions",
        "oldest = state.version + 1",
        KEPT,
        "test_every_version_that_is_kept_can_be_recovered_at_every_moment[2-3]",
    ),
    "delete a checkpoint whose object holds pages": Mutant(
        "reservoir.garbage:old_checkpoints",
        "and not _is_needed(state, row.version)",
        "",
        KEPT,
        "test_every_version_that_is_kept_can_be_recovered_at_every_moment[1-3]",
    ),
    "drop checkpoints that a kept version begins with": Mutant(
        "reservoir.checkpointing:Checkpointer.encode",
        "rows = registry.kept([*state.rows, row], version - self._keep_versions)",
        "rows = registry.kept([*state.rows, row], version)",
        KEPT,
        "test_every_version_that_is_kept_can_be_recovered_at_every_moment[2-3]",
    ),
    "keep what nobody needs": Mutant(
        "reservoir.garbage:old_checkpoints",
        "for row in dropped",
        "for row in ()",
        KEPT,
        "test_what_nobody_needs_is_deleted",
    ),
    "overwrite a version of another writer": Mutant(
        "reservoir.checkpointing:Checkpointer.create",
        "self._objects.create(",
        "self._objects.put(",
        WRITERS,
        "test_a_fenced_writer_can_do_nothing_any_more",
    ),
    "go on after being fenced": Mutant(
        "reservoir.reservoir:Reservoir._settle",
        "self._pool.failure = error",
        "pass",
        WRITERS,
        "test_a_fenced_writer_can_do_nothing_any_more",
    ),
    "open without taking over": Mutant(
        "reservoir.opening:_take_over",
        "return False",
        "return True",
        WRITERS,
        "test_an_opening_at_any_call_of_another_opening_leaves_one_writer",
    ),
    "pass over what another writer has just deleted": Mutant(
        "reservoir.recovery:recover",
        "if now.newest <= listed.newest:",
        "if True:",
        WRITERS,
        "test_a_reader_whose_listed_versions_are_deleted_meanwhile_looks_again",
    ),
    "believe a late list": Mutant(
        "reservoir.opening:open_state",
        "taken = found.listed.newest + 1",
        "taken = 0",
        WRITERS,
        "test_a_late_list_hides_nothing_from_a_writer[2]",
    ),
    "miss files that a late list does not show": Mutant(
        "reservoir.opening:gone",
        "if _is_gone(objects, file_id)",
        "",
        WRITERS,
        "test_a_late_list_hides_nothing_from_a_writer[4]",
    ),
    "give files of two writers the same names": Mutant(
        "reservoir.pool:Pool.send",
        "keys.data_file_id(self.state.term, number)",
        "keys.data_file_id(1, number)",
        WRITERS,
        "test_late_uploads_of_a_fenced_writer_do_no_harm",
    ),
    "checkpoint before all files are stored": Mutant(
        "reservoir.reservoir:Reservoir.checkpoint",
        "self._uploads.finish()",
        "pass",
        CALLS,
        "test_who_dies_at_a_failed_call_leaves_what_was_acknowledged[before]",
    ),
    "forget a file that could not be stored": Mutant(
        "reservoir.uploads:Uploads._send",
        "self._failed.append(blob)",
        "self._places.release()",
        CALLS,
        f"{REPEATED}[before-once]",
    ),
    "make a new checkpoint while another is pending": Mutant(
        "reservoir.reservoir:Reservoir.checkpoint",
        """\
            check_meta(meta)
            self._settle()
""",
        """\
            check_meta(meta)
""",
        CALLS,
        f"{REPEATED}[before-once]",
    ),
    "gather pages for a checkpoint that may still fail": Mutant(
        "reservoir.reservoir:Reservoir.checkpoint",
        """\
            self._uploads.finish()
            # From here to the pending object nothing may fail: the table has pages of a bundle.
            with pool.all_or_nothing("a checkpoint"):
                bundle = pool.bundle(version) if pool.waiting_ids() else None
""",
        """\
            bundle = pool.bundle(version) if pool.waiting_ids() else None
            self._uploads.finish()
            with pool.all_or_nothing("a checkpoint"):
""",
        CALLS,
        "test_a_checkpoint_that_fails_behind_its_pages_keeps_them_for_the_next",
    ),
    "show half of a commit": Mutant(
        "reservoir.pool:Pool.commit",
        """\
            self.send_full()
            with self.all_or_nothing("a commit"), self.lock:
""",
        """\
            with self.lock:
                self._wait(rest)
            self.send_full()
            with self.all_or_nothing("a commit"), self.lock:
""",
        CALLS,
        "test_a_half_shown_commit_is_never_seen",
    ),
    "keep files of a session that was rolled back": Mutant(
        "reservoir.session:Session.rollback",
        "pool.abandon(self._sent)",
        "pass",
        CALLS,
        "test_a_rolled_back_session_leaves_neither_pages_nor_files",
    ),
    "put an old page in place of a newer one": Mutant(
        "reservoir.compaction:move",
        "if pool.is_waiting(page_id):",
        "if False:",
        KEPT,
        "test_every_version_that_is_kept_can_be_recovered_at_every_moment[1-3]",
    ),
    "keep a lock when an opening fails": Mutant(
        "reservoir.reservoir:Reservoir.__init__",
        """\
        except BaseException:
            self.close()
            raise
""",
        """\
        except BaseException:
            raise
""",
        CALLS,
        "test_an_opening_that_fails_lets_go_of_its_cache",
    ),
    "trust a file of the cache for its name": Mutant(
        "reservoir.compaction:fetch",
        """\
            if codec.crc64(data) == ref.crc64:
                return data
        cache.evict""",
        """\
            return data
        cache.evict""",
        POWER,
        "test_a_damaged_file_of_the_cache_hinders_no_rewriting",
    ),
    "let the name of an opening become free": Mutant(
        "reservoir.files:FileTable.keep_name",
        "self.names.add(file_id)",
        "pass",
        "test_reservoir_writers",
        "test_a_writer_that_sleeps_while_others_work_wakes_up_fenced",
    ),
    "forget the names of openings that are left behind": Mutant(
        "reservoir.opening:_take_over",
        "[*_openings_behind(objects, found), version]",
        "[version]",
        "test_reservoir_writers",
        "test_a_version_that_was_left_behind_keeps_the_name_of_its_opening",
    ),
    "open without a second look": Mutant(
        "reservoir.opening:_take_over",
        "return not _is_late(objects, version)",
        "return True",
        "test_reservoir_writers",
        "test_an_opening_that_sleeps_between_its_list_and_its_version_begins_again",
    ),
    "take the first version, kept for its name, for a state": Mutant(
        "reservoir.recovery:_is_name_only",
        "2 not in listed",
        "False",
        "unit/reservoir/test_named_versions",
        "test_a_version_that_is_too_old_says_so_and_changes_nothing",
    ),
    "leave a bad page of a copy as it is": Mutant(
        "reservoir.reading:PageReader._repaired",
        "cache.repair(file.file_id, copy, place.offset, data)",
        "pass",
        "unit/reservoir/test_reading",
        "test_a_repaired_copy_is_good_for_the_next_process",
    ),
    "repair a copy of which all pages are bad one by one": Mutant(
        "reservoir.cache.cache:Cache.is_repairable",
        " and found.repairs < REPAIRS_MAX",
        "",
        "unit/reservoir/test_reading",
        "test_a_copy_of_which_more_is_wrong_heals_with_one_download",
    ),
    "keep all small files in memory": Mutant(
        "reservoir.pool:Pool.stored",
        "while self._kept_bytes > self._kept_bytes_max:",
        "while False:",
        "unit/reservoir/test_merging",
        "test_what_is_kept_to_be_merged_is_bounded_and_only_saves_requests[900]",
    ),
    "list new files of which little is alive": Mutant(
        "reservoir.compaction:superseded",
        "entry.live_bytes < NEW_SHARE * entry.ref.size",
        "False",
        "unit/reservoir/test_stored_bytes",
        "test_a_map_larger_than_memory_and_spill_stores_little_more_than_its_data[any-0-0]",
    ),
    "list new files of which nothing is alive": Mutant(
        "reservoir.garbage:unlisted_files",
        "if entry.is_dead and entry.added_at >= version",
        "if False",
        "unit/reservoir/test_stored_bytes",
        "test_a_file_that_died_before_its_checkpoint_is_gone_after_it",
    ),
    "remove the folder of a living writer": Mutant(
        "env.folder:FolderObjects._clean",
        "return not self._disk.list_dir(asides)",
        "return True",
        "unit/env/test_folder",
        "test_a_folder_in_which_a_writer_is_at_work_stays",
    ),
    "give up an object whose folder was removed": Mutant(
        "env.folder:FolderObjects._commit",
        "self._synced_folders.discard(folder)",
        "raise",
        "unit/env/test_folder",
        "test_a_folder_that_is_removed_at_any_call_of_a_writer_is_made_again[create]",
    ),
}
