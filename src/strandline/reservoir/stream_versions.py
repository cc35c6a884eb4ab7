"""Stream versions: separate state for each version of a program, under one url.

    <url>/<name>/…                        a reservoir for each name
    <url>/versions/<name>/<opened>-<id>   when it was last opened for writing, in microseconds

A program whose plan changes cannot use the pages of the old one. It opens another name, derived
from what changed: ``version_name(plan=…, text=…, package=…)``. The old state stays for a rollback,
or is deleted: with ``retained_stream_versions`` the names that were opened longest ago are deleted
after the first checkpoint of the current one. The current one is never deleted, nor is ``default``,
the name without a version.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version

import msgspec
from xxhash import xxh3_64_hexdigest

from strandline.config.settings import ReservoirSettings
from strandline.errors import Invalid, Unavailable
from strandline.platform.clock import Clock, SystemClock
from strandline.platform.disk import Disk, OsDisk
from strandline.platform.objectstore.cloud import open_objects
from strandline.platform.objectstore.local import FolderObjects
from strandline.platform.objectstore.protocol import Objects
from strandline.reservoir.object_keys import VERSIONS, version_of
from strandline.reservoir.reservoir import Reservoir

DEFAULT = "default"
_NAME = re.compile(r"[A-Za-z0-9_=-][A-Za-z0-9_.=-]{0,99}", re.ASCII)


class VersionSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A stream version in a listing."""

    name: str
    opened_us: int | None
    """The last opening for writing; None for ``default``, and for reservoirs that are not opened by
    name, such as views."""
    version: int
    """The newest checkpoint; 0 for none."""
    objects: int
    size: int
    """Bytes of all its objects."""


def version_name(*, plan: bytes | str = b"", text: str = "", package: str = "") -> str:
    """A name that changes with a plan's bytes, a text, or a package's version."""
    parts = [text] if text else []
    if package:
        try:
            parts.append(version(package))
        except PackageNotFoundError:
            raise Invalid(
                f"there is no package {package!r}: install it, or check the name"
            ) from None
    if plan:
        parts.append(xxh3_64_hexdigest(plan.encode() if isinstance(plan, str) else plan))
    if not parts:
        raise Invalid("a version name needs a plan, a text or a package: give at least one")
    return _check_name("-".join(re.sub(r"[^A-Za-z0-9_.=-]", "_", part) for part in parts))


def open_reservoir(
    url: str,
    *,
    version: str = DEFAULT,
    at: int | None = None,
    readonly: bool = False,
    cache: str | None = None,
    settings: ReservoirSettings | None = None,
    options: Mapping[str, str] | None = None,
    disk: Disk | None = None,
    clock: Clock | None = None,
) -> Reservoir:
    """Open the reservoir at a url: a folder, ``memory://``, ``s3://``, ``az://`` or ``gs://``.

    ``version`` names a stream version, ``at`` a checkpoint to go back to. ``cache`` is a local
    folder for files of a distant store. ``options`` are those of the object store.
    """
    chosen = settings or ReservoirSettings()
    name = _check_name(version)

    def objects_at(place: str) -> Objects:
        return open_objects(place, options=options, settings=chosen.objects, disk=disk)

    is_memory = url.startswith("memory://")
    if is_memory and name != DEFAULT:
        raise Invalid("memory:// has no stream versions: open one for each, or use a folder")
    names = _Names(lambda: objects_at(url), name, chosen.retained_stream_versions)
    opened = Reservoir(
        objects_at(url if is_memory else f"{url.rstrip('/')}/{name}"),
        settings=chosen,
        at=at,
        readonly=readonly,
        cache_folder=None if cache is None else f"{cache.rstrip('/')}/{name}",
        disk=disk,
        clock=clock,
        after_checkpoint=names.clean_up,
    )
    if not readonly and name != DEFAULT:
        try:
            names.opened(
                (clock or SystemClock()).now_us(), (disk or OsDisk()).random_id().hex()[:8]
            )
        except BaseException:
            opened.close()
            raise
    return opened


def version_names(objects: Objects) -> list[str]:
    """The stream versions at a url's root, the last opened one at the end."""
    newest: dict[str, int] = {}
    for info in objects.list(VERSIONS):
        parts = info.key.split("/")
        stamp = parts[-1].partition("-")[0]
        if len(parts) == 3 and stamp.isdecimal():
            newest[parts[1]] = max(newest.get(parts[1], 0), int(stamp))
    return sorted(newest, key=lambda name: (newest[name], name))


def list_versions(objects: Objects) -> list[VersionSummary]:
    """The reservoirs at a url's root, the last opened one at the end. Lists all objects below the
    root."""
    opened: dict[str, int] = {}
    newest: dict[str, int] = {}
    sizes: dict[str, list[int]] = {}
    for info in objects.list():
        name, _, key = info.key.partition("/")
        if name == VERSIONS:
            name, _, mark = key.partition("/")
            stamp = mark.partition("-")[0]
            if stamp.isdecimal():
                opened[name] = max(opened.get(name, 0), int(stamp))
            continue
        sizes.setdefault(name, []).append(info.size)
        if (version := version_of(key)) is not None:
            newest[name] = max(newest.get(name, 0), version)
    summaries = [
        VersionSummary(
            name=name,
            opened_us=opened.get(name),
            version=newest.get(name, 0),
            objects=len(sizes.get(name, [])),
            size=sum(sizes.get(name, [])),
        )
        for name in opened.keys() | newest.keys()
    ]
    return sorted(summaries, key=lambda each: (each.opened_us or 0, each.name))


class _Names:
    """The stream versions beside an open one. Owned by the thread that writes a checkpoint."""

    def __init__(self, open_root: Callable[[], Objects], name: str, keep_last: int) -> None:
        self._open_root = open_root
        self._name = name
        self._keep_last = keep_last
        self._is_clean = keep_last < 0 or name == DEFAULT

    def opened(self, now_us: int, attempt: str) -> None:
        """Record the time of this opening, in place of the one before."""
        with contextlib.closing(self._open_root()) as root:
            before = [info.key for info in root.list(f"{VERSIONS}/{self._name}")]
            mark = f"{VERSIONS}/{self._name}/{now_us:020d}-{attempt}"
            root.put(mark, b"")
            root.delete(key for key in before if key < mark)

    def clean_up(self) -> None:
        """Delete versions beyond those to keep, once per opening; retried after a failure."""
        if self._is_clean:
            return
        with (
            contextlib.suppress(Unavailable),  # the checkpoint exists; this can wait
            contextlib.closing(self._open_root()) as root,
        ):
            others = [name for name in version_names(root) if name != self._name]
            for name in others[: max(0, len(others) - self._keep_last)]:
                for folder in (name, f"{VERSIONS}/{name}"):  # the mark last: it finds what is left
                    root.delete([info.key for info in root.list(folder)])
                    if isinstance(root, FolderObjects):
                        root.remove_folder(folder)
            self._is_clean = True


def _check_name(name: str) -> str:
    if name == VERSIONS or not _NAME.fullmatch(name):
        raise Invalid(
            f"{name[:80]!r} is not a stream version name: use up to 100 letters, digits and -_.= "
            f"that do not begin with a dot, and not {VERSIONS!r}"
        )
    return name
