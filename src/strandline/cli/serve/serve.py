"""``strandline serve``: serves a store over HTTP until it is stopped.

Settings come from a file (``--config``, or ``strandline.toml`` in this folder), then from the
environment (``STRANDLINE_LIMITS__BODY_BYTES_MAX``), then from the flags: ``server/config.py``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from strandline.cli.options import Flag
from strandline.errors import Invalid
from strandline.platform import listen_sockets
from strandline.platform.clock import SystemClock
from strandline.server import config

if TYPE_CHECKING:
    from strandline.server.serve import Server

DEFAULT_FILE = "strandline.toml"
_OTHER_FILES = 4096  # of the store, besides connections


def serve(
    *,
    data: Annotated[str | None, Parameter(metavar="DIR", help="Directory of the store.")] = None,
    bind: Annotated[
        str | None, Parameter(metavar="HOST:PORT", help="Address to listen on, or unix:PATH.")
    ] = None,
    config_file: Annotated[
        str | None,
        Parameter(
            name="--config",
            metavar="FILE",
            help="Settings; default: strandline.toml, if it exists here.",
        ),
    ] = None,
    tls_certificate: Annotated[
        str | None, Parameter(metavar="FILE", help="PEM file with the certificate and its chain.")
    ] = None,
    tls_key: Annotated[
        str | None, Parameter(metavar="FILE", help="PEM file with the private key.")
    ] = None,
    behind_proxy: Annotated[Flag, Parameter(help="A proxy in front terminates TLS.")] = False,
    trusted_proxy: Annotated[
        list[str] | None,
        Parameter(metavar="ADDRESS", help="A proxy whose X-Forwarded-For is trusted; repeatable."),
    ] = None,
    log_format: Annotated[
        str | None, Parameter(metavar="FORMAT", help="text for people, json for machines.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        Parameter(name="--set", metavar="NAME=VALUE", help="Any other setting; repeatable."),
    ] = None,
) -> None:
    """Serve a store over HTTP, with SSE and WebSockets.

    By default it listens on the local machine only. With another address in ``--bind`` it needs a
    token (``strandline token create``) and TLS.
    """
    from strandline.server import logs  # noqa: PLC0415 - slow, and only this command needs it
    from strandline.server.serve import Server  # noqa: PLC0415 - as above

    flags: dict[str, object] = {
        "data": data,
        "bind": bind,
        "tls.certificate": tls_certificate,
        "tls.key": tls_key,
        "behind_proxy": behind_proxy or None,
        "trusted_proxies": trusted_proxy,
        "log_format": log_format,
    }
    effective = config.settings_of(
        file=settings_file(config_file),
        environment=dict(os.environ) | dict(_as_variables(settings or ())),
        flags={name: value for name, value in flags.items() if value is not None},
    )
    clock = SystemClock()
    logs.configure(effective.log_format, clock)
    listen_sockets.allow_open_files(effective.limits.connections_max + _OTHER_FILES)
    Server(effective, clock=clock, on_bound=_print_bound, on_ready=_print_ready).run()
    print("stopped: everything acknowledged is on disk", file=sys.stderr)


def settings_file(path: str | None) -> tuple[str, str] | None:
    """Path and text of the settings file; None without ``--config`` and a default file."""
    if path is None and not os.path.isfile(DEFAULT_FILE):
        return None
    path = path or DEFAULT_FILE
    try:
        with open(path, encoding="utf-8") as file:
            return path, file.read()
    except OSError as error:
        raise Invalid(f"--config {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise Invalid(f"--config {path} is not UTF-8 text: {error.reason}") from error


def _as_variables(settings: Iterable[str]) -> Iterable[tuple[str, str]]:
    """``limits.claim_max=5`` as the name and value of an environment variable."""
    for text in settings:
        name, equals, value = text.partition("=")
        if not equals:
            raise Invalid(f"--set {text!r}: write it as NAME=VALUE, as in limits.claim_max=500")
        if name not in config.names():
            raise Invalid(
                f"--set {text!r}: there is no setting {name!r}{config.suggestion_for(name)}"
            )
        yield config.PREFIX + name.upper().replace(".", "__"), value


def _print_bound(serving: Server) -> None:
    data = os.path.abspath(serving.settings.data)
    print(f"listening on {serving.url}, opening the store in {data}", file=sys.stderr, flush=True)


def _print_ready(serving: Server) -> None:
    print(f"serving {serving.url}: stop with Ctrl-C", file=sys.stderr, flush=True)
