"""Client credentials: the token and the trusted certificates, checked before anything is sent."""

from __future__ import annotations

import ssl

from strandline.errors import Invalid


def checked_token(token: str | None) -> str | None:
    """The token itself, if it can be sent. Error messages do not contain it."""
    if token is None:
        return None
    if not isinstance(token, str):
        raise Invalid(f"a token is text, not {type(token).__name__}")
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise Invalid("the token is empty, or has blanks, line ends or invalid characters")
    return token


def trust_of(*, verify: ssl.SSLContext | str | bool) -> ssl.SSLContext | bool:
    """The TLS context, or the flag, that verifies the certificate of a server."""
    if isinstance(verify, bool | ssl.SSLContext):
        return verify
    try:
        return ssl.create_default_context(cafile=verify)
    except (OSError, TypeError) as error:
        raise Invalid(f"verify={verify!r} is not a file of certificates: {error}") from error
