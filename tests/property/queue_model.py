"""A queue as a plain list of jobs: what test_queue_model.py compares the real one with."""

from __future__ import annotations

from dataclasses import dataclass, field

from strandline.config.settings import TopicConfig
from strandline.views.queue import codec


@dataclass
class Job:
    """A job as the model has it."""

    seq: int
    data: bytes
    priority: int = 100
    not_before: int = 0
    expires: int = 0
    key: bytes | None = None
    unique: bool = False
    group: bytes | None = None
    deliveries: int = 0
    lease: int = 0
    worker: str = ""
    lease_s: float = 0
    deadline: float = 0
    tag: str | None = None
    ts: int = 0

    @property
    def size(self) -> int:
        """Bytes of its record, as ``put`` writes it."""
        said = codec.StoredJobOptions(
            self.priority, self.not_before, self.expires, self.unique, self.group or b""
        )
        meta = codec.encode_job(said) or b""
        return len(self.data) + len(self.key or b"") + len(self.tag or "") + len(meta)


@dataclass
class Model:
    """Jobs by seq, and the dead letters."""

    bounds: TopicConfig
    jobs: dict[int, Job] = field(default_factory=dict)
    dead: list[Job] = field(default_factory=list)
    sizes: dict[int, int] = field(default_factory=dict)
    """Of jobs that were taken, as they were put."""
    paused: bool = False

    def is_head(self, job: Job) -> bool:
        older = (each for each in self.jobs.values() if each.group == job.group)
        return job.group is None or all(each.seq >= job.seq for each in older)

    def lapsed(self, job: Job, now: float) -> bool:
        return job.lease != 0 and job.deadline <= now

    def available(self, now: float, now_us: int) -> list[Job]:
        found = [
            job
            for job in self.jobs.values()
            if self.lapsed(job, now)
            or (not job.lease and job.not_before <= now_us and self.is_head(job))
        ]
        return sorted(found, key=lambda job: (job.priority, job.seq))

    def expire(self, now: float, now_us: int) -> None:
        for job in list(self.jobs.values()):
            waits = not job.lease or self.lapsed(job, now)
            if waits and 0 < job.expires <= now_us:
                del self.jobs[job.seq]

    def sweep(self, now: float, now_us: int) -> None:
        """End all that is over."""
        self.expire(now, now_us)
        for job in list(self.jobs.values()):
            waits = not job.lease or self.lapsed(job, now)
            if waits and self.is_too_old(job, now_us):
                del self.jobs[job.seq]
        if self.bounds.discard == "old":
            while self.is_over():
                del self.jobs[min(job.seq for job in self.waiting())]

    def is_too_old(self, job: Job, now_us: int) -> bool:
        ttl_us = self.bounds.ttl_ms * 1000
        return ttl_us > 0 and job.ts < now_us - ttl_us

    def waiting(self) -> list[Job]:
        return [job for job in self.jobs.values() if not job.lease]

    def is_over(self, *more: Job, alone: bool = False) -> bool:
        """Whether a cap is passed, with some more jobs."""
        count_max, size_max = self.bounds.cap_records, self.bounds.cap_bytes
        jobs = [*([] if alone else self.waiting()), *more]
        too_many = 0 < count_max < len(jobs)
        return too_many or 0 < size_max < sum(self.sizes.get(job.seq, job.size) for job in jobs)

    def by_key(self, key: bytes) -> Job | None:
        found = [job for job in self.jobs.values() if job.unique and job.key == key]
        return found[0] if found else None
