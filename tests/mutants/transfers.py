"""Mutants of imports and exports."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

IMPORTS = "unit/pipelines/test_import"
EXPORTS = "unit/pipelines/test_export"
TRANSFERS = {
    "import from the beginning again": Mutant(
        "pipelines.importing:_Import.run",
        "todo = parts[taken:]",
        "todo = parts",
        IMPORTS,
        "test_an_import_that_died_goes_on_and_repeats_nothing[3]",
    ),
    "forget what an import has delivered": Mutant(
        "pipelines.importing:_Import._name",
        'f"import/{job.id}/{fingerprint}" if job.id else f"import/{fingerprint}"',
        "OsDisk().random_id().hex()",
        IMPORTS,
        "test_an_import_that_is_complete_appends_nothing",
    ),
    "let an id stand for any files": Mutant(
        "pipelines.importing:_Import._taken",
        "if any(producer != self._producer for producer in others):",
        "if False:",
        IMPORTS,
        "test_a_file_that_changed_under_an_id_is_refused",
    ),
    "leave what was staged and not delivered": Mutant(
        "pipelines.importing:_Import._discard",
        "if prepared.files:",
        "if False:",
        IMPORTS,
        "test_a_part_that_is_refused_leaves_nothing_staged",
    ),
    "end a slice in the middle of a line": Mutant(
        "pipelines.formats:_Reader._blocks",
        "end = _line_from(stream, self._piece.next)",
        "end = self._piece.next",
        IMPORTS,
        "test_however_files_are_cut_the_rows_are_the_same",
    ),
    "take a bad row for a good one": Mutant(
        "pipelines.mapping:_check",
        'if field == "data":',
        "if False:",
        f"{IMPORTS}_rows",
        "test_a_bad_row_ends_the_import_and_is_named[null.csv]",
    ),
    "go on with an export at another position": Mutant(
        "pipelines.exporting:_Export.run",
        "manifest = found or planned(",
        "manifest = planned(",
        EXPORTS,
        "test_an_export_that_died_goes_on_with_the_same_records[-3]",
    ),
    "export what was done once more": Mutant(
        "pipelines.exporting:_Export._done",
        "for info in list(self._objects.list(DONE)):",
        "for info in []:",
        EXPORTS,
        "test_an_export_that_died_goes_on_with_the_same_records[-3]",
    ),
    "skip in silence what has gone meanwhile": Mutant(
        "pipelines.exporting:_batches",
        "lost.append(Tombstone(gap_from=gap_from, gap_to=gap_to, reason=error.reason))",
        "pass",
        EXPORTS,
        "test_what_is_evicted_after_the_plan_is_told",
    ),
    "export into whatever is there": Mutant(
        "pipelines.exporting:_Export._found",
        "if other:",
        "if False:",
        EXPORTS,
        "test_a_folder_that_is_not_empty_is_refused",
    ),
}
