"""Promise: a good citizen beside a writer (E10), in a pipe, and when interrupted."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading

import strandline
from tests.cli.conftest import SECONDS_MAX, Program, read_until, stop

WRITER = """
import sys, strandline
with strandline.open(sys.argv[1]) as store:
    topic = store.topic("news", cap_records=1000)
    for line in sys.stdin:
        topic.append_many([line.strip().encode()] * 10)
        print(topic.head_seq, flush=True)
"""


def test_version_and_help_need_no_store(program: Program):
    version = program.run("--version")
    page = program.run("--help")
    command_page = program.run("topic", "create", "-h")

    assert version.code == page.code == command_page.code == 0
    assert version.out.startswith("strandline ")
    assert all(name in page.out for name in ("append", "read", "tail", "topic", "verify"))
    assert "--cap-bytes" in command_page.out
    assert version.err == page.err == ""


def test_tail_follows_what_another_process_writes(program: Program, data_dir: str):
    writer = program.start(data_dir, program=[sys.executable, "-c", WRITER])
    _tell(writer, "before")
    tail = program.start("tail", "news", "-f", "-n", "1", "--output", "jsonl")
    first = read_until(tail.stdout, b'"seq":10')

    _tell(writer, "during")
    then = read_until(tail.stdout, b'"seq":20')
    tail.send_signal(signal.SIGINT)
    code = tail.wait(SECONDS_MAX)

    assert first.count(b"before") == 1
    assert then.count(b"during") == 10
    assert code == 130
    assert tail.stderr.read() == b""


def test_tail_says_what_was_evicted_before_it_could_look(program: Program, data_dir: str):
    writer = program.start(data_dir, program=[sys.executable, "-c", WRITER])
    _tell(writer, "before")
    tail = program.start("tail", "news", "-f", "-n", "1")
    read_until(tail.stdout, b"before")
    tail.send_signal(signal.SIGSTOP)

    for _ in range(150):
        _tell(writer, "during")
    tail.send_signal(signal.SIGCONT)
    seen = read_until(tail.stdout, b"during")

    assert b"-- records 11 to 510 are gone (cap) --" in seen


def test_tail_ends_when_the_topic_is_deleted(program: Program, data_dir: str):
    with strandline.open(data_dir) as store:
        store.topic("news").append(b"hello")
        tail = program.start("tail", "news", "-f")
        read_until(tail.stdout, b"hello")
        store.delete_topic("news")

        _, err = tail.communicate(timeout=SECONDS_MAX)

    assert tail.returncode == 2
    assert b"error: there is no topic 'news'" in err


def test_tail_tells_all_of_a_topic_that_was_made_anew_between_two_looks(
    program: Program, data_dir: str
):
    with strandline.open(data_dir) as store:
        store.topic("news").append_many([b"old"] * 3)
        tail = program.start("tail", "news", "-f")
        read_until(tail.stdout, b"old\n" * 1)
        stop(tail)
        store.delete_topic("news")
        store.topic("news").append_many([b"new"] * 2)
        tail.send_signal(signal.SIGCONT)
        store.topic("news").append(b"newest")

        seen = read_until(tail.stdout, b"newest")

    notice, behind = seen.split(b" are gone (recreated) --\n")
    assert b"-- records" in notice
    assert behind.count(b"new\n") == 2
    assert behind.count(b"newest") == 1


def test_a_reader_that_goes_away_is_no_error(program: Program, data_dir: str):
    with strandline.open(data_dir) as store:
        store.topic("big").append_many([b"x" * 100] * 20_000)

    process = program.start("read", "big", "--all")
    process.stdout.readline()
    process.stdout.close()
    code = process.wait(SECONDS_MAX)

    assert code == 141
    assert process.stderr.read() == b""


def test_an_interrupted_append_keeps_what_it_was_promised(program: Program, data_dir: str):
    process = program.start("append", "lines", "--durability", "fsync", "--output", "jsonl")
    process.stdin.write(b"one\ntwo\n")
    process.stdin.flush()
    read_until(process.stdout, b'"last_seq":2')

    process.send_signal(signal.SIGINT)
    code = process.wait(SECONDS_MAX)

    assert code == 130
    assert process.stderr.read() == b""
    with strandline.open(data_dir) as store:
        assert store.existing_topic("lines").read().data == [b"one", b"two"]
        assert store.health().reasons == []


def test_a_second_writer_is_refused_and_a_reader_is_not(program: Program, data_dir: str):
    writer = program.start("append", "lines", "--output", "jsonl")
    writer.stdin.write(b"one\n")
    writer.stdin.flush()
    read_until(writer.stdout, b'"last_seq":1')

    second = program.run("append", "lines", "two")
    reader = program.run("read", "lines", "--output", "jsonl")
    writer.stdin.close()
    code = writer.wait(SECONDS_MAX)
    third = program.run("append", "lines", "two")

    assert second.code == 4
    assert second.err.startswith("error: another process")
    assert [record["data"] for record in reader.json_lines] == ["one"]
    assert code == third.code == 0


def test_reading_beside_a_writer_that_checkpoints_misses_nothing(program: Program, data_dir: str):
    done = threading.Event()

    def write() -> None:
        with strandline.open(data_dir) as store:
            topic = store.existing_topic("busy")
            while not done.is_set():
                topic.append_many([b"x" * 100] * 100)
                store.checkpoint()

    with strandline.open(data_dir) as store:
        store.topic("busy").append(b"first")
    thread = threading.Thread(target=write)
    thread.start()
    try:
        answers = [program.run("read", "busy", "--all", "--output", "jsonl") for _ in range(3)]
    finally:
        done.set()
        thread.join()

    for answer in answers:
        assert answer.code == 0, answer.err
        seqs = [record["seq"] for record in answer.json_lines]
        assert seqs == list(range(1, len(seqs) + 1))


def _tell(writer: subprocess.Popen[bytes], text: str) -> None:
    """Let the writer append ten records, and wait until it has."""
    writer.stdin.write(f"{text}\n".encode())
    writer.stdin.flush()
    assert writer.stdout.readline()
