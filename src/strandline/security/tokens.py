"""Tokens: text format, stored fields and validity. Pure.

    strand1_<id:12>_<secret:43>_<checksum:6>

The id is public: 12 of a-z and 2-7. The secret is 32 random bytes in base64url, shown once and
stored as its SHA-256: for a secret that cannot be guessed a fast hash is sufficient. The checksum
is the CRC-32 of all before it, in base64url, so that scanners of source code recognize a token.

A token is looked up by the hash of its secret, so that a wrong secret and an unknown id are the
same miss; then it is compared in constant time. The steps are the same for every invalid token.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import zlib
from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from strandline.errors import Invalid
from strandline.security.scopes import Scopes, parse

PREFIX = "strand1"
DAY_US = 86_400_000_000
VALID_US = 90 * DAY_US
"""The default validity of a token."""
VALID_US_MAX = 366 * DAY_US
LABEL_MAX = 200

_FORM = re.compile(
    r"(?P<body>strand1_(?P<id>[a-z2-7]{12})_(?P<secret>[A-Za-z0-9_-]{43}))_(?P<sum>[A-Za-z0-9_-]{6})"
)
_LOOKS_LIKE = re.compile(r"strand1_([a-z2-7]{1,12})[A-Za-z0-9_-]*")
_TICKET = re.compile(r"ticket1_[A-Za-z0-9_-]+")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@:-]{0,127}")


class TokenParts(NamedTuple):
    """The parts of a token's text."""

    id: str
    secret: str


class Token(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A stored token, without the secret."""

    id: str
    principal: str
    """The owner, which may have two valid tokens, to change from one to the other."""
    digest: str
    """SHA-256 of the secret, in hex."""
    scopes: str
    label: str
    creator: str
    created_us: int
    not_before_us: int
    expires_us: int
    revoked_us: int = 0
    """When it was revoked; 0 when it was not."""

    def __post_init__(self) -> None:
        if len(self.digest) != 64 or not re.fullmatch("[a-z2-7]{12}", self.id):
            raise ValueError("malformed id or digest of a token")
        parse(self.scopes)

    @property
    def ended_us(self) -> int:
        """When its validity ends, or has ended."""
        return min(self.revoked_us, self.expires_us) if self.revoked_us else self.expires_us

    def parsed(self) -> Scopes:
        return parse(self.scopes)

    def invalid_reason(self, now_us: int) -> str:
        """The reason why it is not valid at this time; empty when it is valid."""
        if self.revoked_us:
            return "this token was revoked"
        if now_us < self.not_before_us:
            return "this token is not valid yet"
        if now_us >= self.expires_us:
            return "this token has expired"
        return ""


UNKNOWN_TOKEN = Token(
    id="a" * 12,
    principal="",
    digest="0" * 64,
    scopes="deny all",
    label="",
    creator="",
    created_us=0,
    not_before_us=0,
    expires_us=0,
    revoked_us=1,
)
"""The placeholder for an unknown token: no secret has this digest, and it is never valid."""


def make(random_id: Callable[[], bytes]) -> tuple[str, TokenParts]:
    """The text of a new token, and its parts. ``random_id`` returns sixteen random bytes."""
    id = base64.b32encode(random_id())[:12].decode().lower()
    secret = base64.urlsafe_b64encode(random_id() + random_id()).rstrip(b"=").decode()
    body = f"{PREFIX}_{id}_{secret}"
    return f"{body}_{_checksum(body)}", TokenParts(id, secret)


def split_token(text: str) -> TokenParts | None:
    """The parts of a token's text; None when it is malformed or has a wrong checksum."""
    match = _FORM.fullmatch(text)
    if match is None or match["sum"] != _checksum(match["body"]):
        return None
    return TokenParts(match["id"], match["secret"])


def digest_of(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def same_digest(one: str, other: str) -> bool:
    """Compare in a time that does not depend on where the digests differ."""
    return hmac.compare_digest(one.encode(), other.encode())


def find(text: str, by_digest: Mapping[str, Token]) -> Token | None:
    """The token of this text, valid or not; None when the id or the secret is wrong."""
    parts = split_token(text) or TokenParts("", text)
    digest = digest_of(parts.secret)
    token = by_digest.get(digest, UNKNOWN_TOKEN)
    is_equal = same_digest(digest, token.digest)
    return token if is_equal and token.id == parts.id and token is not UNKNOWN_TOKEN else None


def checked_principal(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise Invalid(
            f"invalid token owner {name!r}: use 1 to 128 of A-Z a-z 0-9 . _ @ : - and "
            "start with a letter or digit"
        )
    return name


def checked_label(label: str) -> str:
    if len(label) > LABEL_MAX or not label.isprintable():
        raise Invalid(f"a label has at most {LABEL_MAX} characters, and no control characters")
    return label


def checked_valid_us(valid_us: int) -> int:
    """A validity within the limits."""
    if not 0 < valid_us <= VALID_US_MAX:
        raise Invalid(
            "a token is valid for more than 0 and at most 366 days: for example --valid 90d"
        )
    return valid_us


def redact(text: str) -> str:
    """Text without the secrets of tokens and tickets: for logs. The ids of tokens stay."""
    if PREFIX in text:
        text = _LOOKS_LIKE.sub(r"strand1_\1_***", text)
    return _TICKET.sub("ticket1_***", text) if "ticket1_" in text else text


def _checksum(body: str) -> str:
    checksum = zlib.crc32(body.encode()).to_bytes(4, "big")
    return base64.urlsafe_b64encode(checksum).rstrip(b"=").decode()
