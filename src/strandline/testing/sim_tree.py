"""The names of a simulated file system: folders, and their changes that are not synced yet.

Creating, renaming and removing a name is one ``Change`` of one or two entries, visible at once and
durable when its folder is synced. Until then a power loss keeps, independently for each folder, any
first part of its changes, in the order of the journal. Three rules:

- A rename is whole or absent, also between two folders: the file is never in both or in neither.
- A kept change keeps every earlier change of the folders that it touches.
- A folder's own name belongs to its parent. The synced content of a folder is lost when the name of
  the folder is.

With ``reorder_names`` each change is kept or lost independently: harsher than the journals of ext4
and XFS, allowed by POSIX.

Paths are split at "/"; a relative path begins at the root. Not safe from many threads: the disk's
lock is held around every call.
"""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Iterator
from typing import TypeAlias

from strandline.testing.crash_choices import Choices
from strandline.testing.sim_sectors import Sectors


class Folder:
    """The names in a folder, now and after the last sync."""

    __slots__ = ("durable", "entries")

    def __init__(self) -> None:
        self.entries: dict[str, Node] = {}
        self.durable: dict[str, Node] = {}


Node: TypeAlias = Folder | Sectors
Edit: TypeAlias = tuple[Folder, str, Node | None]  # None: the name is removed
Change: TypeAlias = tuple[Edit, ...]


def failure(code: int, path: str, other: str | None = None) -> OSError:
    """The error that the operating system would raise."""
    return OSError(code, os.strerror(code), path, None, other)


class Volume:
    """A tree of folders and files of limited size."""

    def __init__(self, capacity: int | None) -> None:
        self.capacity = capacity
        self.root = Folder()
        self.pending: list[Change] = []

    def find(self, path: str) -> Node | None:
        try:
            return self._node(path)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def folder(self, path: str) -> Folder:
        node = self._node(path)
        if not isinstance(node, Folder):
            raise failure(errno.ENOTDIR, path)
        return node

    def file(self, path: str) -> Sectors:
        node = self._node(path)
        if not isinstance(node, Sectors):
            raise failure(errno.EISDIR, path)
        return node

    def parent_of(self, path: str) -> tuple[Folder, str]:
        """The folder that holds the name, and the name."""
        names = _names(path)
        if not names:
            raise failure(errno.EBUSY, path)
        return self.folder("/".join(names[:-1])), names[-1]

    def link(self, path: str, node: Node) -> None:
        folder, name = self.parent_of(path)
        self._change((folder, name, node))

    def unlink(self, path: str) -> None:
        """Remove a file or an empty folder. Absent is fine."""
        try:
            node = self._node(path)
        except FileNotFoundError:
            return
        if isinstance(node, Folder) and node.entries:
            raise failure(errno.ENOTEMPTY, path)
        folder, name = self.parent_of(path)
        self._change((folder, name, None))

    def move(self, old: str, new: str) -> None:
        old_folder, old_name = self.parent_of(old)
        new_folder, new_name = self.parent_of(new)
        node, target = self._node(old), new_folder.entries.get(new_name)
        if node is target:
            return
        code = _rename_error(old, new, node, target)
        if code:
            raise failure(code, old, new)
        self._change((old_folder, old_name, None), (new_folder, new_name, node))

    def sync(self, folder: Folder) -> None:
        """Make the names in the folder durable, and what they depend on."""
        kept = self._with_earlier(set(), {folder})
        for index in sorted(kept):
            for edit in self.pending[index]:
                _apply(edit, edit[0].durable)
        self.pending = [change for index, change in enumerate(self.pending) if index not in kept]

    def used(self) -> int:
        return sum(file.size for file in set(_files(self.root)))

    def fitting_size(self, file: Sectors, size: int) -> int:
        """The size to which the file can grow, up to ``size``."""
        if self.capacity is None or size <= file.size:
            return size
        return min(size, file.size + max(0, self.capacity - self.used()))

    def fork(self) -> Volume:
        """A copy of the file system, including everything that is not synced yet."""
        copies: dict[Node, Node] = {}
        copy = Volume(self.capacity)
        copy.root = _fork_folder(self.root, copies)
        copy.pending = [
            tuple(
                (_fork_folder(folder, copies), name, None if node is None else _fork(node, copies))
                for folder, name, node in change
            )
            for change in self.pending
        ]
        return copy

    def after_power_loss(self, choices: Choices, *, page: bool, reorder_names: bool) -> Volume:
        """The file system after a power loss, all of it durable."""
        kept = self._any_changes(choices) if reorder_names else self._first_changes(choices)
        names: dict[Folder, dict[str, Node]] = {}
        for index in sorted(kept):
            for edit in self.pending[index]:
                if edit[0] not in names:
                    names[edit[0]] = dict(edit[0].durable)
                _apply(edit, names[edit[0]])
        after = Volume(self.capacity)
        after.root = _Survival(choices, names, page=page).folder(self.root)
        return after

    def combinations(self, *, page: bool, reorder_names: bool) -> int:
        """The number of possible states after a power loss, at most."""
        if reorder_names:
            ways = 2 ** len(self.pending)
        else:
            ways = math.prod(len(positions) + 1 for positions in self._positions().values())
        return math.prod((file.combinations(page=page) for file in self._every_file()), start=ways)

    def _node(self, path: str) -> Node:
        node: Node | None = self.root
        for name in _names(path):
            if not isinstance(node, Folder):
                raise failure(errno.ENOENT if node is None else errno.ENOTDIR, path)
            node = node.entries.get(name)
        if node is None:
            raise failure(errno.ENOENT, path)
        return node

    def _change(self, *edits: Edit) -> None:
        for edit in edits:
            _apply(edit, edit[0].entries)
        self.pending.append(edits)

    def _positions(self) -> dict[Folder, list[int]]:
        """For each folder the positions of its changes in the journal."""
        positions: dict[Folder, list[int]] = {}
        for index, change in enumerate(self.pending):
            for folder in {folder: None for folder, _, _ in change}:
                positions.setdefault(folder, []).append(index)
        return positions

    def _first_changes(self, choices: Choices) -> set[int]:
        last_kept = set()
        for positions in self._positions().values():
            count = choices.pick(len(positions) + 1)
            if count:
                last_kept.add(positions[count - 1])
        return self._with_earlier(last_kept, set())

    def _any_changes(self, choices: Choices) -> set[int]:
        return {index for index in range(len(self.pending)) if choices.pick(2)}

    def _with_earlier(self, changes: set[int], folders: set[Folder]) -> set[int]:
        """The changes, those of the folders, and all earlier ones in the same folders."""
        kept, folders = set(), set(folders)
        for index in reversed(range(len(self.pending))):
            touched = {folder for folder, _, _ in self.pending[index]}
            if index in changes or touched & folders:
                kept.add(index)
                folders |= touched
        return kept

    def _every_file(self) -> set[Sectors]:
        """Files that have a name now or may have one after a power loss."""
        files: set[Sectors] = set()
        nodes: list[Node] = [self.root]
        nodes += [node for change in self.pending for _, _, node in change if node is not None]
        while nodes:
            node = nodes.pop()
            if isinstance(node, Sectors):
                files.add(node)
            else:
                nodes += [*node.entries.values(), *node.durable.values()]
        return files


class _Survival:
    """Builds the tree after one power loss."""

    def __init__(
        self, choices: Choices, names: dict[Folder, dict[str, Node]], *, page: bool
    ) -> None:
        self._choices = choices
        self._page = page
        self._names = names
        self._files: dict[Sectors, Sectors] = {}

    def folder(self, folder: Folder) -> Folder:
        after = Folder()
        for name, node in self._names.get(folder, folder.durable).items():
            after.durable[name] = self.folder(node) if isinstance(node, Folder) else self.file(node)
        after.entries = dict(after.durable)
        return after

    def file(self, file: Sectors) -> Sectors:
        if file not in self._files:
            self._files[file] = file.after_power_loss(self._choices, page=self._page)
        return self._files[file]


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name and name != "."]


def _rename_error(old: str, new: str, node: Node, target: Node | None) -> int:
    """The error code of an invalid rename, in the order of Linux's checks; 0 if it is valid."""
    old_names, new_names = _names(old), _names(new)
    if new_names[: len(old_names)] == old_names:
        return errno.EINVAL
    if old_names[: len(new_names)] == new_names:
        return errno.ENOTEMPTY
    if isinstance(node, Folder) and isinstance(target, Sectors):
        return errno.ENOTDIR
    if isinstance(node, Sectors) and isinstance(target, Folder):
        return errno.EISDIR
    return errno.ENOTEMPTY if isinstance(target, Folder) and target.entries else 0


def _apply(edit: Edit, entries: dict[str, Node]) -> None:
    _, name, node = edit
    if node is None:
        entries.pop(name, None)
    else:
        entries[name] = node


def _files(folder: Folder) -> Iterator[Sectors]:
    for node in folder.entries.values():
        if isinstance(node, Folder):
            yield from _files(node)
        else:
            yield node


def _fork(node: Node, copies: dict[Node, Node]) -> Node:
    if isinstance(node, Folder):
        return _fork_folder(node, copies)
    if node not in copies:
        copies[node] = node.fork()
    return copies[node]


def _fork_folder(folder: Folder, copies: dict[Node, Node]) -> Folder:
    existing = copies.get(folder)
    if isinstance(existing, Folder):
        return existing
    copy = copies[folder] = Folder()
    copy.entries = {name: _fork(node, copies) for name, node in folder.entries.items()}
    copy.durable = {name: _fork(node, copies) for name, node in folder.durable.items()}
    return copy
