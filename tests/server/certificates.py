"""Certificates that a test makes for itself, each signed by nobody else."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path

from strandline.server.settings import TlsSettings


def certificate(folder: Path, name: str) -> TlsSettings:
    """A certificate and its key for this machine, as settings."""
    told = TlsSettings(certificate=str(folder / f"{name}.pem"), key=str(folder / f"{name}.key"))
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    names = ["-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    files = ["-keyout", told.key, "-out", told.certificate]
    subprocess.run(
        ["openssl", "req", "-x509", *curve, "-days", "2", *names, *files],
        check=True,
        capture_output=True,
    )
    return told


def trusting(settings: TlsSettings) -> ssl.SSLContext:
    """A client that believes this certificate alone."""
    return ssl.create_default_context(cafile=settings.certificate)


def subject(connected: ssl.SSLSocket) -> str:
    """The name in the certificate that a server showed."""
    shown = connected.getpeercert()
    assert shown is not None
    return str(dict(pair for ((*pair,),) in shown["subject"])["commonName"])
