"""Runs simulations by hand: ``--seed 7`` repeats one and prints what happens in it."""

from __future__ import annotations

import argparse
import os
import sys
import time


def main() -> int:
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets is a part of what is repeated
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.simulation", *sys.argv[1:]])
    from tests.simulation.run import simulate

    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("--seed", type=int, help="repeat this one, and tell what happens")
    parser.add_argument("--first", type=int, default=0, help="the first seed of many")
    parser.add_argument("--runs", type=int, default=100, help="how many seeds")
    arguments = parser.parse_args()
    if arguments.seed is not None:
        print(simulate(arguments.seed, print))
        return 0
    began, failed = time.monotonic(), []
    for seed in range(arguments.first, arguments.first + arguments.runs):
        try:
            simulate(seed)
        except AssertionError as error:
            failed.append(seed)
            print(f"seed {seed}: {error}", flush=True)
    seconds = time.monotonic() - began
    print(f"{arguments.runs} runs in {seconds:.0f} s, {len(failed)} failed: {failed[:20]}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
