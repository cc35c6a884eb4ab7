"""What the tests of imports and exports share: small files, records as plain tuples, bad days."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import strandline

Plain = tuple[bytes | None, str | None, str | None, bytes | None, bytes]


def make_store(data_dir: str, *topics: str) -> str:
    with strandline.open(data_dir) as store:
        for topic in topics or ("t",):
            store.topic(topic)
    return data_dir


def records(data_dir: str, topic: str = "t") -> list[Plain]:
    """Everything in a topic, without what the store itself assigns."""
    found: list[Plain] = []
    with strandline.open(data_dir, readonly=True) as store:
        page = store.existing_topic(topic).read(0, 1_000_000)
        for each in page.records:
            found.append((each.key, each.tag, each.node, each.meta, each.data))
    return found


def datas(data_dir: str, topic: str = "t") -> list[bytes]:
    return [record[-1] for record in records(data_dir, topic)]


def write(folder: Path, name: str, content: str | bytes) -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def staged(data_dir: str) -> list[str]:
    """Files on their way into a topic."""
    folder = f"{data_dir}/lake/incoming"
    return sorted(os.listdir(folder)) if os.path.isdir(folder) else []


class Died(BaseException):
    """A process ends here."""


class Dying:
    """An engine that runs tasks one by one, and dies when so many results have been told."""

    name = "dying"
    in_process = True

    def __init__(self, results: int) -> None:
        self._left = results

    def run(self, work: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        for place, task in enumerate(tasks):
            if not self._left:
                raise Died
            self._left -= 1
            yield place, work(task)
