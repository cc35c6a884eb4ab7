"""Promise: stream versions keep their state apart, old ones go when it is asked for, the current
one never, and a name says what it was made from."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import pytest

import strandline
from strandline.errors import Invalid, NotFound
from strandline.platform.objectstore.cloud import open_objects
from strandline.reservoir.stream_versions import list_versions, version_names
from strandline.testing.sim_clock import SimClock


@pytest.fixture
def url(tmp_path: Path) -> str:
    return str(tmp_path / "pages")


class Program:
    """Opens one stream version after the other, a second apart."""

    def __init__(self, url: str, keep_last: int = -1) -> None:
        self.url = url
        self.clock = SimClock()
        self.settings = strandline.ReservoirSettings(retained_stream_versions=keep_last)

    def open(self, name: str, **options: bool) -> strandline.Reservoir:
        self.clock.advance(1.0)
        return strandline.reservoir(
            self.url, version=name, settings=self.settings, clock=self.clock, **options
        )

    def run(self, *names: str) -> None:
        """Each writes its own name as page 1."""
        for name in names:
            with self.open(name) as reservoir, reservoir.session() as session:
                session.write(1, name.encode())
                session.commit()
                reservoir.checkpoint()

    def there(self) -> list[str]:
        return version_names(open_objects(self.url))

    def objects_of(self, name: str) -> list[str]:
        return [info.key for info in open_objects(self.url).list(name)]


def test_every_version_has_its_own_pages(url):
    program = Program(url)
    program.run("old", "new")

    found = {}
    for name in ("old", "new"):
        with program.open(name, readonly=True) as reservoir:
            found[name] = reservoir.read(1)

    assert found == {"old": b"old", "new": b"new"}


def test_all_versions_stay_unless_it_is_asked_for(url):
    program = Program(url)

    program.run("a", "b", "c", "default")

    assert program.there() == ["a", "b", "c"]


@pytest.mark.parametrize(("keep_last", "left"), [(0, ["d"]), (1, ["c", "d"]), (2, ["b", "c", "d"])])
def test_so_many_older_versions_stay(url, keep_last, left):
    program = Program(url, keep_last)

    program.run("a", "b", "c", "d")

    assert program.there() == left
    gone = [name for name in "abcd" if name not in left]
    assert [key for name in gone for key in program.objects_of(name)] == []
    assert all(program.objects_of(name) for name in left)


def test_a_version_that_is_deleted_leaves_no_folder(url):
    program = Program(url, keep_last=1)

    program.run("a", "b", "c", "d")

    assert sorted(path.name for path in Path(url).iterdir()) == [".aside", "c", "d", "versions"]
    assert sorted(path.name for path in Path(url, "versions").iterdir()) == ["c", "d"]


def test_a_version_that_is_deleted_while_it_is_open_can_be_written_again(url):
    program = Program(url, keep_last=0)
    with program.open("old") as reservoir:
        reservoir.checkpoint()
        program.run("new")

        assert program.objects_of("old") == []
    program.run("old")

    with program.open("old", readonly=True) as reservoir:
        assert reservoir.read(1) == b"old"


def test_versions_are_listed_with_what_they_hold(url):
    program = Program(url)
    program.run("default", "a", "b", "a")
    found = {each.name: each for each in list_versions(open_objects(url))}

    assert list(found) == ["default", "b", "a"]
    assert found["default"].opened_us is None
    assert found["a"].opened_us > found["b"].opened_us
    assert (found["a"].version, found["b"].version) == (4, 2)
    for name, each in found.items():
        keys = program.objects_of(name)
        assert each.objects == len(keys)
        assert each.size == sum(open_objects(url).head(key).size for key in keys)


def test_what_is_not_a_reservoir_is_not_listed(url):
    Path(url, "photos").mkdir(parents=True)
    Path(url, "photos", "one.jpg").write_bytes(b"x")
    Path(url, "readme").write_bytes(b"x")

    assert list_versions(open_objects(url)) == []


def test_the_version_opened_longest_ago_goes_first(url):
    Program(url).run("a", "b", "a")

    Program(url, keep_last=1).run("c")

    assert [Program(url).objects_of(name) == [] for name in "abc"] == [False, True, False]


def test_nothing_is_deleted_before_the_new_version_has_a_checkpoint(url):
    program = Program(url, keep_last=0)
    program.run("old")

    with program.open("new"):
        assert program.there() == ["old", "new"]

    with program.open("old", readonly=True) as reservoir:
        assert reservoir.read(1) == b"old"


def test_the_absence_of_versions_deletes_none_and_is_deleted_by_none(url):
    program = Program(url, keep_last=0)
    program.run("default", "a")

    program.run("default")

    assert program.there() == ["a"]
    with program.open("default", readonly=True) as reservoir:
        assert reservoir.read(1) == b"default"


def test_a_reader_leaves_no_mark(url):
    program = Program(url)
    program.run("a", "b")

    with program.open("a", readonly=True):
        pass

    assert program.there() == ["a", "b"]


def test_each_version_has_one_mark(url):
    program = Program(url)

    program.run("a", "a", "a")

    assert len(program.objects_of("versions/a")) == 1


def test_a_name_changes_with_each_of_its_parts():
    names = {
        strandline.version_name(text="orders"),
        strandline.version_name(text="users"),
        strandline.version_name(plan=b"select 1"),
        strandline.version_name(plan="select 2"),
        strandline.version_name(package="numpy"),
        strandline.version_name(text="orders", plan=b"select 1"),
        strandline.version_name(text="orders", plan=b"select 1", package="numpy"),
    }

    assert len(names) == 7
    assert strandline.version_name(package="numpy") == version("numpy")
    assert strandline.version_name(plan=b"select 1") == strandline.version_name(plan="select 1")


@pytest.mark.parametrize("name", ["", ".hidden", "a/b", "..", "versions", "ä", "x" * 101])
def test_a_name_that_is_none_is_refused(url, name):
    with pytest.raises(Invalid, match="stream version"):
        strandline.reservoir(url, version=name)


def test_a_name_made_from_nothing_or_from_an_unknown_package_is_refused():
    with pytest.raises(Invalid, match="give at least one"):
        strandline.version_name()
    with pytest.raises(Invalid, match="no-such-package"):
        strandline.version_name(package="no-such-package")


def test_memory_has_no_versions():
    with pytest.raises(Invalid, match="memory"):
        strandline.reservoir("memory://", version="a")


def test_a_reader_of_nothing_is_told(url):
    with pytest.raises(NotFound, match="open it for writing first"):
        strandline.reservoir(url, readonly=True)


@pytest.mark.parametrize(
    "wrong", [{"file_bytes": 0}, {"compact_share": 0.6}, {"retained_stream_versions": -2}]
)
def test_a_setting_that_cannot_be_is_named(url, wrong):
    with pytest.raises(Invalid, match=next(iter(wrong))):
        strandline.reservoir(url, settings=strandline.ReservoirSettings(**wrong))
