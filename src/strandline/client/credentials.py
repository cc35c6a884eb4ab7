"""Who asks, and whom he trusts: tokens and certificates, checked before anything is sent."""

from __future__ import annotations

import ssl

from strandline.errors import Invalid


def checked_token(token: str | None) -> str | None:
    """The token itself, if it can be sent. What is wrong is told without it."""
    if token is None:
        return None
    if not isinstance(token, str):
        raise Invalid(f"a token is text, not {type(token).__name__}")
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise Invalid("this is no token: it has blanks, line ends or letters that no token has")
    return token


def trust_of(*, verify: ssl.SSLContext | str | bool) -> ssl.SSLContext | bool:
    """What decides whether a server is who it says it is."""
    if isinstance(verify, bool | ssl.SSLContext):
        return verify
    try:
        return ssl.create_default_context(cafile=verify)
    except (OSError, TypeError) as error:
        raise Invalid(f"verify={verify!r} is no file of certificates: {error}") from error
