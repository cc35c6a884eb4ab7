"""Authentication and authorisation of all requests: every route, every view, every stream.

The header ``Authorization`` identifies the principal:

- ``Bearer strand1_…``: a token (``security/tokens.py``);
- ``Basic user:key``: a user of the command language, whose roles and grants are converted to scopes
  (``security/user_principals.py``). Checking a key with scrypt takes some ten milliseconds: call
  ``takes_time`` first;
- none: ``local``, which may do everything, only if the server can be reached from this machine
  alone, and has neither tokens nor users, and never had any.

An accepted header is cached until any token or user changes. Every decision compares the heads of
their topics, so a revocation applies from the next request on; ``start`` starts a watch that calls
the functions of ``on_revoked`` within a quarter of a second, for open streams.

``security/internal_topics.py`` defines the meaning of scopes for internal topics. If the tokens
cannot be verified, all requests are rejected.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

import structlog

from strandline.api.errors import Refused
from strandline.errors import Forbidden, StrandlineError, UnknownTopic
from strandline.log.topic.topic import Topic
from strandline.platform.clock import Clock
from strandline.platform.disk import OsDisk
from strandline.query.access.users import User, Users
from strandline.query.query_service import USERS
from strandline.security import internal_topics, user_principals
from strandline.security.audit import Audit
from strandline.security.principal import ANONYMOUS, LOCAL, Principal
from strandline.security.scopes import EVERYTHING, Action, Scopes
from strandline.security.tickets import Tickets
from strandline.security.token_store import TokenStore
from strandline.security.tokens import Token
from strandline.server.auth.host_origin import is_local_bind
from strandline.server.limits.rate_limits import RateLimits, is_loopback, network_of
from strandline.server.settings import ServerSettings
from strandline.store import Store

INTERNAL = internal_topics.INTERNAL
_log = structlog.get_logger("strandline.server")
_CACHE_MAX = 4096
_SWEEP_S = 0.25
_FILES_MAX = 100
"""Files that the audit entry of a start names; the others are counted."""
_NO_HEADER = "send `Authorization: Bearer TOKEN`"
_UNKNOWN = "no such token, user or key"


class Auth:
    """Decides. Owned by the loop's thread; ``authenticate`` is safe from many threads."""

    def __init__(
        self,
        *,
        store: Store,
        settings: ServerSettings,
        clock: Clock,
        random_id: Callable[[], bytes] | None = None,
    ) -> None:
        """Corrupt when tokens or audit log cannot be verified: then the server does not start."""
        random_id = random_id or OsDisk().random_id
        self.registry = TokenStore(store, clock, random_id)
        self.audit = Audit(store, clock)
        self.quotas = RateLimits(settings.limits, clock)
        self.tickets = Tickets(clock, random_id)
        self._store = store
        self._settings = settings
        self._clock = clock
        self._private = is_local_bind(settings.bind) and not settings.behind_proxy
        self._users_topic: Topic | None = None
        self._topics_without_users = -1
        """The number of topics when the topic of users did not exist."""
        self._open = False
        self._principals: dict[str, Principal] = {}
        self._rights: dict[str, Scopes] = {}
        self._write_grants: dict[tuple[str | None, str], Principal] = {}
        """Principals that may write, by header and topic."""
        self._end_reasons: dict[str, str] = {}
        """Cached reasons why a principal is no longer accepted, by id; empty if it is."""
        self._heads = (-1, -1)
        self._days_used: dict[str, str] = {}
        self._callbacks: list[Callable[[str], object]] = []
        self._watch: asyncio.Task[None] | None = None
        self._accepted: dict[str, Principal] = {}
        self.registry.current()
        self._refresh()

    # Authentication

    @property
    def has_tokens(self) -> bool:
        """Whether there is, or was, a token."""
        return self.registry.has_had_tokens

    @property
    def is_open(self) -> bool:
        """Whether all clients on this machine may do everything."""
        self._refresh()
        return self._open

    def takes_time(self, authorization: str | None) -> bool:
        """Whether authenticating this takes so long that it needs a thread."""
        return (
            authorization is not None
            and authorization not in self._principals
            and authorization[:6].lower() == "basic "
        )

    def cached_principal(self, authorization: str | None, address: str) -> Principal | None:
        """The principal, if ``authenticate`` accepted this header and no token changed since.

        None: call ``authenticate``. For the head of a request that may take the fast path.
        """
        try:
            self._refresh()
        except Refused:
            return None
        if authorization is None:
            return LOCAL if self._open and is_loopback(address) else None
        return self._principals.get(authorization)

    def authenticate(self, authorization: str | None, address: str) -> Principal:
        """The principal; Refused with 401 for a wrong header, with 429 after many of them."""
        self._refresh()
        if authorization is None:
            return self._without_header(address)
        cached = self._principals.get(authorization)
        if cached is not None and (cached.kind == "token" or not self._wait_s(address)):
            self.check_live(cached)
            return cached
        scheme, _, credentials = authorization.partition(" ")
        if scheme.lower() == "bearer":
            who = self._token(credentials.strip(), address)
        elif scheme.lower() == "basic":
            who = self._user(credentials.strip(), address)
        else:
            raise _unauthorized(_NO_HEADER)
        self._cache(authorization, who)
        return who

    def identify(self, authorization: str | None, address: str) -> Principal:
        """As ``authenticate``, but ANONYMOUS when there is no header. For public routes."""
        if authorization is None and not self.is_open:
            return ANONYMOUS
        return self.authenticate(authorization, address)

    def redeem(self, ticket: str, address: str) -> Principal:
        """The principal of a ticket, for streams that cannot send a header."""
        self._refresh()
        who = self.tickets.redeem(ticket)
        if who is None:
            self._check_failures(address)
            raise self._failed(address, "ticket", "the ticket is used, expired or unknown")
        self.check_live(who)
        return who

    def check_live(self, who: Principal) -> None:
        """401, when a principal that was accepted is no longer accepted."""
        if who.kind == "anonymous":
            raise _unauthorized(_NO_HEADER)
        if who.kind == "local":
            if not self._open:
                raise _unauthorized("this server has tokens now: send one")
            return
        if who.kind == "token" and self._clock.now_us() >= who.expires_us:
            raise _unauthorized("this token has expired")
        reason = self._end_reasons.get(who.id)
        if reason is None:
            reason = self._end_reasons[who.id] = self._end_reason(who)
        if reason:
            raise _unauthorized(reason)

    # Authorisation

    def authorise(self, who: Principal, action: Action, topic: str = "") -> None:
        """Forbidden, unless the principal may do this with the topic (without one, the server)."""
        self._refresh()
        self.check_live(who)
        if not self._allowed(who, action, topic):
            on = f" {topic!r}" if topic else ""
            raise Forbidden(f"{who.name or who.id} may not {action}{on}")

    def cache_writer(self, authorization: str | None, who: Principal, topic: str) -> None:
        """Cache that this header may write to a topic, until a token or user changes."""
        if who.kind in ("local", "token"):  # users are checked each time: keys can be guessed
            if len(self._write_grants) >= _CACHE_MAX:
                self._write_grants.clear()
            self._write_grants[authorization, topic] = who

    def cached_writer(
        self, authorization: str | None, address: str, topic: str
    ) -> Principal | None:
        """The principal, if it is cached that it may write to a topic; None: check all steps."""
        if not self._is_unchanged():
            return None
        who = self._write_grants.get((authorization, topic))
        if who is None:
            return None
        if who.kind == "local":
            return who if self._open and is_loopback(address) else None
        return who if self._clock.now_us() < who.expires_us else None

    def allows(self, who: Principal, action: Action, topic: str = "") -> bool:
        """As ``authorise``, but returns whether it is allowed; for lists."""
        try:
            self.authorise(who, action, topic)
        except (Forbidden, Refused):
            return False
        return True

    def readable(self, who: Principal, names: Iterable[str]) -> list[str]:
        """The topics of a list that the principal may read."""
        self._refresh()
        self.check_live(who)
        return [name for name in names if self._allowed(who, "read", name)]

    def authorise_everything(self, who: Principal) -> None:
        """Forbidden, unless the principal may do everything: for roles and grants of users."""
        self._refresh()
        self.check_live(who)
        if not self.scopes(who).cover(EVERYTHING):
            raise Forbidden(f"{who.name or who.id} lacks the right to everything, which this needs")

    def scopes(self, who: Principal) -> Scopes:
        """The principal's present scopes."""
        if who.kind != "user":
            return who.scopes
        found = self._rights.get(who.name)
        if found is None:
            found = self._rights[who.name] = user_principals.scopes_of(self._users().user(who.name))
        return found

    def _allowed(self, who: Principal, action: Action, topic: str) -> bool:
        return internal_topics.allowed(self.scopes(who), action, topic)

    # Revocation

    def on_revoked(self, callback: Callable[[str], object]) -> None:
        """Register a function, called on the loop with the id of each revoked principal."""
        self._callbacks.append(callback)

    def start(self) -> None:
        """Start to watch for revoked and expired tokens, on the running loop."""
        if self._watch is None:
            health = self._store.health()
            fields = {"bind": self._settings.bind, "health": health.status, "open": self.is_open}
            fields |= {"found": "; ".join(health.reasons)} | _file_fields(
                self._store.quarantined_files()
            )
            self.audit.note("start", fields)
            self._watch = asyncio.get_running_loop().create_task(self._watch_tokens())

    async def stop(self) -> None:
        """End the watch, and store the last days of use of tokens."""
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watch
        await asyncio.to_thread(self._write_days_used)

    def sweep(self) -> None:
        """One round of the watch: report principals that are no longer accepted."""
        self._topics_without_users = -1
        for who in list(self._accepted.values()):
            try:
                self._refresh()
                self.check_live(who)
            except Refused:
                self._report_revoked(who)

    async def _watch_tokens(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_S)
            try:
                self.sweep()
                if self._days_used:
                    await asyncio.to_thread(self._write_days_used)
            except Exception as error:  # noqa: BLE001 - one failed round must not end the watch
                _log.error("checking for revoked tokens failed", exc_info=error)

    def _report_revoked(self, who: Principal) -> None:
        self._accepted.pop(who.id, None)
        self.tickets.forget(who.id)
        for callback in self._callbacks:
            callback(who.id)

    # Caches and lookups

    def _refresh(self) -> None:
        """Clear the caches if a token or user has changed."""
        if self._is_unchanged():
            return
        try:
            self.registry.current()
            heads = (self.registry.version, self._users_head())
        except StrandlineError as error:
            self._principals.clear()
            self._write_grants.clear()
            self._open = False
            self._heads = (-1, -1)
            raise Refused(503, "unavailable", "the tokens cannot be verified") from error
        if heads != self._heads:
            self._principals.clear()
            self._write_grants.clear()
            self._rights.clear()
            self._end_reasons.clear()
            self._open = self._private and not self.registry.has_had_tokens and not heads[1]
            self._heads = heads

    def _is_unchanged(self) -> bool:
        """Whether the heads of both topics are unchanged, so no token or user has changed."""
        users, registry = self._users_topic, self.registry
        if registry.version != self._heads[0] or not registry.is_current:
            return False
        if users is None:
            return self._store.topic_count() == self._topics_without_users
        return users.head_seq == self._heads[1]

    def _cache(self, authorization: str, who: Principal) -> None:
        if len(self._principals) >= _CACHE_MAX:
            self._principals.clear()
        self._principals[authorization] = who
        self._accepted[who.id] = who

    def _without_header(self, address: str) -> Principal:
        if self._open and is_loopback(address):
            self._accepted[LOCAL.id] = LOCAL
            return LOCAL
        raise _unauthorized(_NO_HEADER)

    def _token(self, text: str, address: str) -> Principal:
        if not is_loopback(address):
            self._check_failures(address)
        token = self.registry.find(text)
        reason = _UNKNOWN if token is None else token.invalid_reason(self._clock.now_us())
        if token is None or reason:
            self._check_failures(address)
            raise self._failed(address, token.id if token else "", reason)
        self._note_use(token)
        return Principal(
            id=token.id,
            name=token.principal,
            scopes=token.parsed(),
            expires_us=token.expires_us,
        )

    def _user(self, credentials: str, address: str) -> Principal:
        # Keys that people choose can be guessed, so loopback is not exempt from the limit.
        self._check_failures(address)
        login = user_principals.login_of(credentials)
        try:
            if login is None or not self._users_head():
                raise Forbidden(_UNKNOWN)
            user = self._users().authenticate(login.user, login.key)
        except Forbidden as error:
            name = user_principals.PREFIX + login.user if login else ""
            raise self._failed(address, name, _UNKNOWN) from error
        return Principal(
            id=user_principals.PREFIX + user.id,
            kind="user",
            name=user.id,
            scopes=user_principals.scopes_of(user),
        )

    def _end_reason(self, who: Principal) -> str:
        if who.kind == "user":
            return "" if self._user_now(who.name).active else "this user's key was revoked"
        token = self.registry.current().get(who.id)
        return _UNKNOWN if token is None else token.invalid_reason(self._clock.now_us())

    def _user_now(self, name: str) -> User:
        return self._users().user(name)

    def _users(self) -> Users:
        return self._store.queries.users

    def _users_head(self) -> int:
        """The head of the topic of users; 0 when it does not exist. Does not create their view."""
        if self._users_topic is None:
            count = self._store.topic_count()
            if count == self._topics_without_users:
                return 0
            try:
                self._users_topic = self._store.existing_topic(USERS)
            except UnknownTopic:
                self._topics_without_users = count
                return 0
        return self._users_topic.head_seq

    # Failures

    def _wait_s(self, address: str) -> float:
        return self.quotas.failures.wait_s(network_of(address))

    def _check_failures(self, address: str) -> None:
        wait_s = self._wait_s(address)
        if wait_s > 0:
            raise Refused(
                429,
                "throttled",
                "too many wrong tokens from this address: retry later",
                detail={"limit": "failures_per_minute", "retry_after_ms": round(wait_s * 1000)},
                retry_after_s=wait_s,
            )

    def _failed(self, address: str, named: str, reason: str) -> Refused:
        self.quotas.failures.add(network_of(address))
        self.audit.note_failure("denied", {"named": named, "reason": reason}, address=address)
        if self._wait_s(address) > 0:
            self.audit.note_failure("locked-out", {"named": named}, address=address)
        return _unauthorized(reason)

    def _note_use(self, token: Token) -> None:
        now = datetime.fromtimestamp(self._clock.now_us() / 1e6, UTC)
        day = now.date().isoformat()
        if self.registry.last_used(token.id) != day:
            self._days_used[token.id] = day

    def _write_days_used(self) -> None:
        days, self._days_used = self._days_used, {}
        # A full disk, or damage: the day of use must not end a stream, or prevent a clean shutdown.
        with contextlib.suppress(StrandlineError):
            self.registry.note_used(days)


def _unauthorized(reason: str) -> Refused:
    return Refused(401, "unauthorized", reason)


def _file_fields(paths: list[str]) -> dict[str, object]:
    """Quarantined files as fields of an audit entry, one for each file."""
    if not paths:
        return {}
    files = {f"set_aside_{number}": path for number, path in enumerate(paths[:_FILES_MAX], start=1)}
    return {"set_aside": len(paths), **files}
