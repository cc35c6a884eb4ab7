"""Runs the benchmarks: ``python -m bench [--scale 0.2] [--only NAME,...] [--json FILE]``."""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from pathlib import Path

import msgspec

from bench import (
    appending,
    deletes,
    kv,
    lake,
    live,
    loss_window,
    materialize,
    metrics,
    pipelines,
    queues,
    reading,
    rebuild,
    reservoir,
    routers,
    scaling,
    series,
    serving,
    spark,
    sql,
    tables,
)
from bench.measure import Figure
from bench.peers import Peers, warm_up
from bench.places import scratch
from strandline.platform.process import tune_for_throughput

GROUPS: dict[str, Callable[[Path, Peers, float], Iterable[Figure]]] = {
    "appending": lambda folder, peers, scale: appending.run(folder, peers, scale=scale),
    "loss_window": lambda folder, _, scale: loss_window.run(folder, scale=scale),
    "reading": lambda folder, peers, scale: reading.run(folder, peers, scale=scale),
    "deletes": lambda folder, _, scale: deletes.run(folder, scale=scale),
    "scaling": lambda folder, _, scale: scaling.run(folder, scale=scale),
    "lake": lambda folder, _, scale: lake.run(folder, scale=scale),
    "reservoir": lambda folder, _, scale: reservoir.run(folder, scale=scale),
    "spark": lambda folder, _, scale: spark.run(folder, scale=scale),
    "pipelines": lambda folder, _, scale: pipelines.run(folder, scale=scale),
    "materialize": lambda folder, _, scale: materialize.run(folder, scale=scale),
    "rebuild": lambda folder, _, scale: rebuild.run(folder, scale=scale),
    "kv": lambda folder, _, scale: kv.run(folder, scale=scale),
    "queues": lambda folder, _, scale: queues.run(folder, scale=scale),
    "routers": lambda folder, _, scale: routers.run(folder, scale=scale),
    "series": lambda folder, _, scale: series.run(folder, scale=scale),
    "metrics": lambda folder, _, scale: metrics.run(folder, scale=scale),
    "tables": lambda folder, _, scale: tables.run(folder, scale=scale),
    "sql": lambda folder, _, scale: sql.run(folder, scale=scale),
    "serving": lambda folder, _, scale: serving.run(folder, scale=scale),
    "live": lambda folder, _, scale: live.run(folder, scale=scale),
}
"""Every group of figures, in the order in which they run."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="1 is the whole table")
    parser.add_argument(
        "--only",
        type=lambda names: _known(names.split(",")),
        metavar="NAME,...",
        help=f"some of: {', '.join(GROUPS)}",
    )
    parser.add_argument("--json", default="bench/results.json", help="where the figures go")
    parser.add_argument("--folder", default=None, help="where to write (default: a temp folder)")
    args = parser.parse_args()
    tune_for_throughput()
    if args.folder is not None:
        Path(args.folder).mkdir(parents=True, exist_ok=True)
    with scratch(args.folder) as folder:
        figures = _run(folder, args.only, args.scale)
    judged = [figure for figure in figures if figure.met is not None]
    missed = [figure.name.strip() for figure in judged if not figure.met]
    print(f"\n{len(judged) - len(missed)} of {len(judged)} goals met")
    for name in missed:
        print(f"  missed: {name}")
    report = {"python": sys.version, "machine": platform.platform(), "figures": figures}
    Path(args.json).write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=2))
    print(f"figures written to {args.json}")


def _known(names: list[str]) -> list[str]:
    for name in names:
        if name not in GROUPS:
            raise argparse.ArgumentTypeError(f"{name} is not one of {', '.join(GROUPS)}")
    return names


def _run(folder: Path, only: list[str] | None, scale: float) -> list[Figure]:
    print("measuring the limits of this machine ...", flush=True)
    warm_up(folder, scale=scale)
    peers = Peers(folder, scale=scale)
    figures = [
        Figure(name="limit: pwrite of 256 KiB", value=peers.pwrite_bytes / 1e9, unit="GB/s"),
        Figure(name="limit: os.pwrite of 100 B", value=peers.pwrite_small, unit="calls/s"),
        Figure(name="limit: write + fdatasync", value=peers.sync_rate, unit="calls/s"),
        Figure(name="limit: memcpy of 64 MiB", value=peers.memcpy_bytes / 1e9, unit="GB/s"),
        Figure(name="peer: SQLite WAL executemany(1000)", value=peers.sqlite_many, unit="rec/s"),
        Figure(name="peer: SQLite WAL one row", value=peers.sqlite_one, unit="rec/s"),
    ]
    for figure in figures:
        _print(figure)
    for name, group in GROUPS.items():
        if only is None or name in only:
            for figure in _closing(group(folder, peers, scale)):
                _print(figure)
                figures.append(figure)
    return figures


def _closing(found: Iterable[Figure]) -> Iterator[Figure]:
    """The figures of a group. A generator is closed, so that its servers end before their folder
    is deleted."""
    try:
        yield from found
    finally:
        if isinstance(found, Generator):
            found.close()


def _print(figure: Figure) -> None:
    value = f"{figure.value:,.0f}" if figure.value >= 1000 else f"{figure.value:.2f}"
    line = f"{figure.name:52} {value:>14} {figure.unit:8}"
    if figure.ratio is not None:
        line += f" {figure.ratio:6.2f}x {figure.peer}"
    if figure.goal:
        line += f"   goal {figure.goal}: {'met' if figure.met else 'MISSED'}"
    print(line + (f"   ({figure.note})" if figure.note else ""), flush=True)


if __name__ == "__main__":
    main()
