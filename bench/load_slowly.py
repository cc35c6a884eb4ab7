"""What ``load.c`` does, in Python: for machines without a C compiler. Its plan is on stdin."""

from __future__ import annotations

import re
import selectors
import socket
import sys
import time
from collections import deque
from typing import BinaryIO

_LATE_S = 20.0
_ID = re.compile(rb"\n(\d+-\d+)\r\n")


class Line:
    """One connection. Owned by one thread."""

    def __init__(self, connected: socket.socket, request: bytes | None) -> None:
        self.connected = connected
        self.request = request
        self.sent: deque[float] = deque()
        self._tail = b""

    def ask(self, count: int) -> None:
        assert self.request is not None
        self.sent.extend([time.perf_counter()] * count)
        self.connected.sendall(self.request * count)

    def take(self, sign: bytes, again: bytes, refused: list[bytes]) -> int:
        """Read what is there; how many signs were in it."""
        data = self._tail + self.connected.recv(1 << 18)
        if len(data) == len(self._tail) or any(each in data for each in refused):
            sys.exit(f"refused, or hung up: {data[:500]!r}")
        count = data.count(sign)
        behind = data.rfind(sign) + len(sign) if count else 0
        self._tail = data[max(behind, len(data) - len(sign) + 1) :]
        if count and again:
            newest = _ID.findall(data)[-1]
            self.connected.sendall(again + b"$%d\r\n%b\r\n" % (len(newest), newest))
        return count


class Client:
    """All of them. Owned by one thread."""

    def __init__(self, plan: BinaryIO) -> None:
        numbers = [_word(plan) for _ in range(7)]
        writers, watchers, self._window, refusals, self._rounds = map(int, numbers[:5])
        self._warm_up_s, self._seconds = map(float, numbers[5:])
        self._acknowledged, self._told, self._again = (_blob(plan) for _ in range(3))
        self._refused = [_blob(plan) for _ in range(refusals)]
        self._selector = selectors.EpollSelector()
        self._lines: list[Line] = []
        for number in range(writers + watchers):
            connected = socket.socket(fileno=int(_word(plan)))
            connected.setblocking(True)
            line = Line(connected, _blob(plan) if number < writers else None)
            self._lines.append(line)
            self._selector.register(connected, selectors.EVENT_READ, line)
        self._writers = self._lines[:writers]
        self._watchers = watchers
        self.acks = self.deliveries = 0
        self.times: list[float] = []
        self._began = 0.0

    def run(self) -> None:
        if self._rounds:
            self._pace()
            rates = (0.0, 0.0)
        else:
            rates = self._flood()
        times = sorted(self.times)
        p50, p99 = (times[int(share * len(times))] * 1000 for share in (0.5, 0.99))
        print(
            f'{{"requests_per_s":{rates[0]},"deliveries_per_s":{rates[1]},'
            f'"p50_ms":{p50},"p99_ms":{p99}}}'
        )

    def _flood(self) -> tuple[float, float]:
        for writer in self._writers:
            writer.ask(self._window)
        end = time.perf_counter() + self._warm_up_s
        while time.perf_counter() < end:
            self._turn(paced=False)
        print("begin", flush=True)
        self.acks = self.deliveries = 0
        self.times.clear()
        start = time.perf_counter()
        while not self.acks or time.perf_counter() - start < self._seconds:
            self._turn(paced=False)
        took = time.perf_counter() - start
        print("end", flush=True)
        return self.acks / took, self.deliveries / took

    def _pace(self) -> None:
        for number in range(self._rounds + 3):
            if number == 3:
                self.times.clear()
                print("begin", flush=True)
            self.acks = self.deliveries = 0
            self._began = time.perf_counter()
            self._writers[0].ask(1)
            while not self.acks or self.deliveries < self._watchers:
                self._turn(paced=True)
            time.sleep(0.001)
        print("end", flush=True)

    def _turn(self, *, paced: bool) -> None:
        events = self._selector.select(_LATE_S)
        if not events:
            sys.exit("no answer")
        for key, _ in events:
            line: Line = key.data
            if line.request is None:
                count = line.take(self._told, self._again, [])
                self.deliveries += count
                if paced:
                    self.times += [time.perf_counter() - self._began] * count
                continue
            count = line.take(self._acknowledged, b"", self._refused)
            self.acks += count
            now = time.perf_counter()
            for _ in range(min(count, len(line.sent))):
                sent = line.sent.popleft()
                if not paced:
                    self.times.append(now - sent)
            if count and not paced:
                line.ask(count)


def _word(plan: BinaryIO) -> bytes:
    word = b""
    while (byte := plan.read(1)) not in (b" ", b""):
        word += byte
    return word


def _blob(plan: BinaryIO) -> bytes:
    data = plan.read(int(_word(plan)))
    plan.read(1)
    return data


if __name__ == "__main__":
    Client(sys.stdin.buffer).run()
