"""Checks the options of a put and converts them to metas of records. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from strandline.errors import Invalid, TooLarge
from strandline.log.topic.validation import check_whole
from strandline.views.queue.codec import (
    GROUP_SIZE_MAX,
    PLAIN,
    PRIORITY_MAX,
    WORKER_SIZE_MAX,
    StoredJobOptions,
    encode_job,
    is_valid_time,
)
from strandline.views.queue.times import time_after

Key = bytes | str


def job_of(
    now_us: int,
    *,
    priority: int,
    delay: float,
    at: int | None,
    ttl: float | None,
) -> StoredJobOptions:
    """The options of all jobs of one call."""
    return StoredJobOptions(
        priority=checked_priority(priority),
        not_before=_not_before(now_us, delay, at),
        expires=0 if ttl is None else _expires(now_us, ttl),
    )


def metas_of(
    job: StoredJobOptions,
    count: int,
    *,
    keys: Sequence[bytes | None] | None,
    groups: Sequence[Key | None] | None,
    priorities: Sequence[int] | None,
) -> list[bytes | None] | None:
    """The metas of ``count`` jobs, None if none of them needs one."""
    _check_count(count, groups=groups, priorities=priorities)
    if keys is None and groups is None and priorities is None:
        return None if job == PLAIN else [encode_job(job)] * count
    default = (job.priority,) * count
    return [
        encode_job(
            job._replace(
                unique=keys is not None and keys[index] is not None,
                group=b"" if groups is None else plain_group(groups[index]),
                priority=checked_priority((priorities or default)[index]),
            )
        )
        for index in range(count)
    ]


def plain_keys(keys: Sequence[Key | None] | None, count: int) -> list[bytes | None] | None:
    """Unique keys as bytes."""
    if keys is None:
        return None
    _check_count(count, keys=keys)
    return [None if key is None else plain_key(key) for key in keys]


def plain_key(key: Key) -> bytes:
    """A unique key as bytes."""
    plain = _plain(key, "a key")
    if not plain:
        raise Invalid("a unique key cannot be empty: omit it for a job without a key")
    return plain


def plain_group(group: Key | None) -> bytes:
    """The key of a group as bytes, empty for none."""
    if group is None:
        return b""
    plain = _plain(group, "a group")
    if not 0 < len(plain) <= GROUP_SIZE_MAX:
        raise TooLarge(f"the key of a group has 1 to {GROUP_SIZE_MAX} bytes, not {len(plain)}")
    return plain


def plain_worker(worker: str) -> bytes:
    """A worker's name as bytes."""
    if not isinstance(worker, str):
        raise Invalid(f"a worker's name is text, not {type(worker).__name__}")
    plain = _plain(worker, "a worker's name")
    if len(plain) > WORKER_SIZE_MAX:
        raise TooLarge(f"a worker's name has at most {WORKER_SIZE_MAX} bytes, not {len(plain)}")
    return plain


def checked_priority(priority: int) -> int:
    check_whole(priority=priority)
    if not 0 <= priority <= PRIORITY_MAX:
        raise Invalid(f"priority is 0 to {PRIORITY_MAX}, lower first, not {priority}")
    return priority


def _not_before(now_us: int, delay: float, at: int | None) -> int:
    if at is None:
        return time_after(now_us, delay, "delay")
    if delay:
        raise Invalid("give a delay or a time (at), not both")
    check_whole(at=at)
    if not is_valid_time(at):
        raise Invalid(f"at is a time in microseconds since 1970, not {at}")
    return at if at > now_us else 0


def _expires(now_us: int, ttl: float) -> int:
    expires = time_after(now_us, ttl, "ttl")
    if not expires:
        raise Invalid("a ttl is more than 0 seconds: omit it for a job that never expires")
    return expires


def _plain(value: Key, name: str) -> bytes:
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise Invalid(f"{name} is bytes or text, not {type(value).__name__}")
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise Invalid(f"{name} is not valid Unicode: {error}") from error


def _check_count(count: int, **columns: Sequence[object] | None) -> None:
    for name, values in columns.items():
        if values is not None and len(values) != count:
            raise Invalid(f"{len(values)} {name} for {count} jobs: give one for each")
