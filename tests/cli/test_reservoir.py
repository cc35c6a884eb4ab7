"""Promise: a reservoir is inspected and verified from the command line beside whoever writes, and
cleaned only when somebody says so."""

from __future__ import annotations

from pathlib import Path

import pytest

import strandline
from strandline.cli.errors import DAMAGED, FAILED, WRONG_USE
from strandline.config.settings import ReservoirSettings
from strandline.reservoir import object_keys
from strandline.reservoir.data_files import data_file_codec
from tests.cli.conftest import SECONDS_MAX, Command, Program, Terminal

SMALL = ReservoirSettings(file_bytes=2_000, snapshot_interval=4, retained_versions=5)


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A reservoir of eight checkpoints, with the version of its opening nine."""
    place = str(tmp_path / "pages")
    with strandline.reservoir(place, settings=SMALL) as reservoir:
        fill(reservoir, 8)
    return place


def fill(reservoir: strandline.Reservoir, checkpoints: int) -> None:
    for step in range(checkpoints):
        with reservoir.session() as session:
            for page_id in range(1, 4 if step % 2 else 30):
                session.write(page_id, b"%d of step %d" % (page_id, step) * 9)
            session.commit()
        reservoir.checkpoint(b"step %d" % step)


def path_of(url: str, key: str) -> Path:
    return Path(url) / "default" / key


def newest(url: str) -> Path:
    return sorted(path_of(url, object_keys.CHECKPOINTS).iterdir())[-1]


def flip(path: Path, offset: int) -> None:
    stored = bytearray(path.read_bytes())
    stored[offset] ^= 1
    path.write_bytes(stored)


@pytest.fixture
def fallen_back(url: str) -> str:
    """A reservoir that was opened at the version before a damaged one."""
    flip(newest(url), -1)
    with strandline.reservoir(url, settings=SMALL) as reservoir:
        assert reservoir.recovered.passed_over
        reservoir.checkpoint(b"after the damage")
    return url


def test_versions_lists_stream_versions_with_the_newest_last(command: Command, url: str):
    for name in ("orders-1", "orders-2", "orders-1"):
        with strandline.reservoir(url, version=name, settings=SMALL) as reservoir:
            fill(reservoir, 1)

    found = command("reservoir", "versions", url, "--output", "json").json
    table = command("reservoir", "versions", url).lines

    assert [each["name"] for each in found] == ["default", "orders-2", "orders-1"]
    assert [each["version"] for each in found] == [9, 2, 4]
    assert found[0]["opened_us"] is None
    assert found[1]["opened_us"] < found[2]["opened_us"]
    assert all(each["size"] > 0 and each["objects"] > 0 for each in found)
    assert [line.split()[0] for line in table[1:]] == [
        "default",
        "orders-2",
        "orders-1",
    ]


def test_versions_of_what_is_not_a_reservoir_says_what_to_do(command: Command, url: str):
    nothing = command("reservoir", "versions", f"{url}/nothing")
    inside = command("reservoir", "versions", f"{url}/default")

    assert (nothing.code, inside.code) == (WRONG_USE, WRONG_USE)
    assert "there is no reservoir" in nothing.err
    assert "check the URL" in nothing.err
    assert "--version default" in inside.err


def test_inspect_shows_checkpoints_files_and_what_is_alive(command: Command, url: str):
    found = command("reservoir", "inspect", url, "--output", "json").json
    table = command("reservoir", "inspect", url)

    assert (found["version"], found["pages"]) == (9, 29)
    assert [each["version"] for each in found["checkpoints"]] == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert [each["version"] for each in found["checkpoints"] if each["kind"] == "snapshot"] == [
        1,
        5,
        9,
    ]
    assert all(
        each["made_us"] and each["size"] and not each["problem"] for each in found["checkpoints"]
    )
    assert all(0 < each["live_ratio"] <= 1 and each["since"] for each in found["files"])
    assert sum(each["live_pages"] for each in found["files"]) == 29
    assert found["size"] == sum(path.stat().st_size for path in Path(url).rglob("*/*/*"))
    assert table.code == 0
    for heading in ("checkpoints", "files", "garbage", "set aside", "requests"):
        assert any(line.startswith(heading) for line in table.lines), heading
    assert "snapshot" in table.out
    assert found["files"][0]["file_id"] in table.out


def test_inspect_tells_what_it_asked_and_an_estimate_of_the_cost(command: Command, url: str):
    found = command("reservoir", "inspect", url, "--output", "json").json

    asked = found["requests"]
    assert (asked["puts"], asked["deletes"], asked["lists"]) == (0, 0, 2)
    assert found["cost"] == pytest.approx((asked["gets"] * 0.4 + 2 * 5) / 1e6)


def test_inspect_and_verify_work_beside_the_writer_and_do_not_fence_it(command: Command, url: str):
    with strandline.reservoir(url, settings=SMALL) as reservoir:
        codes = [command("reservoir", verb, url).code for verb in ("inspect", "verify", "clean")]
        fill(reservoir, 1)

        assert codes == [0, 0, 0]
        assert command("reservoir", "inspect", url, "--output", "json").json["version"] == 11


def test_a_whole_reservoir_is_good(command: Command, url: str):
    answer = command("reservoir", "verify", url)
    found = command("reservoir", "verify", url, "--output", "json").json

    assert answer.code == 0
    assert answer.lines[-1].split() == ["result", "good"]
    assert (found["ok"], found["checkpoints"], found["pages"]) == (True, 9, 29)


def test_a_damaged_page_is_a_line_with_object_byte_and_page(command: Command, url: str):
    with strandline.reservoir(url, readonly=True) as reservoir:
        place = reservoir.place(20)
    key = object_keys.file_key(place.file_id)
    flip(path_of(url, key), place.offset)

    answer = command("reservoir", "verify", url)
    json = command("reservoir", "verify", url, "--output", "json")

    assert (answer.code, json.code) == (DAMAGED, DAMAGED)
    assert answer.lines[-1].split()[:4] == [key, str(place.offset), "20", "a"]
    assert json.json["damage"] == [
        {"object": key, "offset": place.offset, "page": 20, "reason": "a page fails its checksum"}
    ]
    assert f"{key} at byte {place.offset}" in answer.err
    assert "hint: put the object back from a copy" in answer.err


def test_a_version_that_cannot_be_read_is_told_by_both(command: Command, url: str):
    flip(newest(url), -1)

    inspected = command("reservoir", "inspect", url, "--output", "json")
    verified = command("reservoir", "verify", url)

    assert (inspected.code, inspected.json["version"]) == (0, 8)
    assert "version 9" in inspected.json["passed_over"][0]
    assert verified.code == DAMAGED
    assert newest(url).name in verified.out


def test_clean_wants_to_be_told_when_nobody_can_be_asked(command: Command, fallen_back: str):
    before = sorted(Path(fallen_back).rglob("*"))

    answer = command("reservoir", "clean", fallen_back)

    assert answer.code == WRONG_USE
    assert "give --yes" in answer.err
    assert sorted(Path(fallen_back).rglob("*")) == before


def test_clean_deletes_what_was_set_aside_and_tells_how_much(command: Command, fallen_back: str):
    aside = command("reservoir", "inspect", fallen_back, "--output", "json").json["set_aside"]

    answer = command("reservoir", "clean", fallen_back, "--yes", "--output", "json")
    again = command("reservoir", "clean", fallen_back, "--yes", "--output", "json")
    left = command("reservoir", "inspect", fallen_back, "--output", "json").json

    assert aside
    assert answer.json == {"objects": len(aside), "bytes": sum(each["size"] for each in aside)}
    assert again.json == {"objects": 0, "bytes": 0}
    assert left["set_aside"] == []
    assert not any(path_of(fallen_back, each["key"]).exists() for each in aside)
    assert command("reservoir", "verify", fallen_back).code == 0


def test_clean_loses_no_page_no_meta_and_no_version_that_was_kept(
    command: Command, fallen_back: str
):
    before = command("reservoir", "inspect", fallen_back, "--output", "json").json
    with strandline.reservoir(fallen_back, readonly=True) as reservoir:
        pages = [reservoir.read(page_id) for page_id in range(1, 31)]

    command("reservoir", "clean", fallen_back, "--yes")
    after = command("reservoir", "inspect", fallen_back, "--output", "json").json

    kept = [each["version"] for each in before["checkpoints"]]
    assert [each["version"] for each in after["checkpoints"]][: len(kept)] == kept
    for at in (None, kept[-1], kept[-2]):
        with strandline.reservoir(fallen_back, at=at, readonly=True) as reservoir:
            assert [reservoir.read(page_id) for page_id in range(1, 31)] == pages
            if at is None:
                assert reservoir.meta == b"after the damage"


@pytest.mark.parametrize("answer", ["y", "n"])
def test_clean_asks_whoever_sits_at_a_terminal(
    program: Program, terminal: Terminal, fallen_back: str, answer: str
):
    before = sorted(Path(fallen_back).rglob("*/*/*"))

    process = program.start(
        "reservoir", "clean", fallen_back, stdin=terminal.theirs, stderr=terminal.theirs
    )
    terminal.wait_for("set aside? [y/N]")
    terminal.type(f"{answer}\n")
    code = process.wait(SECONDS_MAX)

    assert code == (0 if answer == "y" else WRONG_USE)
    gone = set(before) - set(Path(fallen_back).rglob("*/*/*"))
    assert bool(gone) == (answer == "y")


@pytest.mark.parametrize("verb", ["inspect", "verify", "clean"])
def test_a_missing_reservoir_is_told_with_what_to_do(command: Command, verb: str, url: str):
    with strandline.reservoir(url, version="v2", settings=SMALL) as reservoir:
        fill(reservoir, 1)

    told = {
        place: command("reservoir", verb, *place.split())
        for place in (
            f"{url}-none",
            f"{url}/default",
            f"{url} --version v3",
            "s4://bucket/prefix",
            "memory://",
        )
    }

    hints = [answer.err.splitlines()[-1] for answer in told.values()]
    assert {answer.code for answer in told.values()} == {WRONG_USE}
    assert all(len(answer.err.splitlines()) == 2 and not answer.out for answer in told.values())
    assert "check the URL" in hints[0]
    assert f"name {url} --version default" in hints[1]
    assert "there are v2, default" in hints[2]
    assert "s4://bucket/prefix' does not name an object store" in told["s4://bucket/prefix"].err
    assert not Path(f"{url}-none").exists()
    assert command("reservoir", verb, url, "--version", "v2").code == 0


def test_a_newer_format_says_upgrade(command: Command, url: str):
    stored = bytearray(newest(url).read_bytes())
    stored[-60] = 2
    stored[-8:] = data_file_codec.crc64(bytes(stored[-64:-8])).to_bytes(8, "little")
    newest(url).write_bytes(stored)

    answers = [command("reservoir", verb, url) for verb in ("inspect", "verify", "clean")]

    assert {answer.code for answer in answers} == {FAILED}
    assert all("hint: upgrade" in answer.err for answer in answers)


def test_verify_shows_how_far_it_is(command: Command, url: str, monkeypatch: pytest.MonkeyPatch):
    shown = []
    monkeypatch.setattr(
        "strandline.cli.output.progress.Bar.show", lambda bar, what, done, total: shown.append(what)
    )

    command("reservoir", "verify", url)

    assert set(shown) == {"checkpoints", "files"}
