"""TLS of a server's connections: version 1.2 or newer; reloads certificates without a restart.

Open connections keep the certificate of their handshake.
"""

from __future__ import annotations

import ssl

from strandline.errors import Invalid
from strandline.server.settings import TlsSettings


def make_context(settings: TlsSettings) -> ssl.SSLContext | None:
    """The TLS context of connections; None without a certificate."""
    if not settings.certificate:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    _load(context, settings)
    if settings.client_authority:
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_verify_locations(settings.client_authority)
        except OSError as error:
            raise Invalid(f"tls.client_authority {settings.client_authority}: {error}") from error
    return context


def reload(context: ssl.SSLContext, settings: TlsSettings) -> None:
    """Read the files again; Invalid, without any change, when they do not match."""
    make_context(settings)
    _load(context, settings)


def _load(context: ssl.SSLContext, settings: TlsSettings) -> None:
    try:
        context.load_cert_chain(settings.certificate, settings.key)
    except OSError as error:  # SSLError is one
        raise Invalid(
            f"tls.certificate {settings.certificate} with tls.key {settings.key}: {error}: "
            "use a matching pair of PEM files"
        ) from error
