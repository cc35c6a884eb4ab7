"""The one place that says who asks and whether he may: every route, every view, every stream.

Who asks is told by the header ``Authorization``:

- ``Bearer strand1_…``: a token (``security/tokens.py``);
- ``Basic user:key``: a user of the command language, whose roles and grants are turned into scopes
  (``security/user_principals.py``). His key takes scrypt some ten milliseconds, so ask
  ``takes_time`` first;
- nothing: ``local``, who may do all, as long as nobody but this machine can reach the server, and
  it has neither tokens nor users. It had one once: then never again.

A header that was found good is remembered until any token or user changes. Every decision looks at
the heads of their topics, so a revocation counts from the next request on; ``start`` begins a watch
that tells ``on_revoked`` within a quarter of a second, for streams that are open.

``security/internal_topics.py`` says what scopes mean for the server's own topics. If the tokens
cannot be trusted, nobody gets in.
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
from strandline.security.principal import LOCAL, NOBODY, Principal
from strandline.security.scopes import EVERYTHING, Action, Scopes
from strandline.security.tickets import Tickets
from strandline.security.token_store import Registry
from strandline.security.tokens import Token
from strandline.server.auth.host_origin import is_local_bind
from strandline.server.limits.rate_limits import Quotas, is_loopback, network_of
from strandline.server.settings import ServerSettings
from strandline.store import Store

INTERNAL = internal_topics.INTERNAL
_log = structlog.get_logger("strandline.server")
_REMEMBERED_MAX = 4096
_TURN_S = 0.25
_NAMED_MAX = 100
"""Files that the entry of a start names; the others are counted."""
_SAY_WHO = "send `Authorization: Bearer TOKEN`"
_UNKNOWN = "no such token, user or key"


class Auth:
    """Decides. Owned by the loop's thread, but for ``authenticate``: safe from many threads."""

    def __init__(
        self,
        *,
        store: Store,
        settings: ServerSettings,
        clock: Clock,
        random_id: Callable[[], bytes] | None = None,
    ) -> None:
        """Corrupt when tokens or audit log cannot be trusted: then the server does not start."""
        random_id = random_id or OsDisk().random_id
        self.registry = Registry(store, clock, random_id)
        self.audit = Audit(store, clock)
        self.quotas = Quotas(settings.limits, clock)
        self.tickets = Tickets(clock, random_id)
        self._store = store
        self._settings = settings
        self._clock = clock
        self._private = is_local_bind(settings.bind) and not settings.behind_proxy
        self._users_topic: Topic | None = None
        self._topics_without_users = -1
        """How many topics there were when there was none of users."""
        self._open = False
        self._remembered: dict[str, Principal] = {}
        self._rights: dict[str, Scopes] = {}
        self._granted: dict[tuple[str | None, str], Principal] = {}
        """Who may write, by header and topic."""
        self._ended: dict[str, str] = {}
        """Why a principal is no longer let in, by id, as far as it was asked."""
        self._seen = (-1, -1)
        self._used: dict[str, str] = {}
        self._told: list[Callable[[str], object]] = []
        self._watch: asyncio.Task[None] | None = None
        self._live: dict[str, Principal] = {}
        self.registry.current()
        self._look()

    # Who asks

    @property
    def has_tokens(self) -> bool:
        """Whether there is, or was, a token."""
        return self.registry.begun

    @property
    def is_open(self) -> bool:
        """Whether everybody on this machine may do everything."""
        self._look()
        return self._open

    def takes_time(self, authorization: str | None) -> bool:
        """Whether to authenticate this takes so long that it belongs on a thread."""
        return (
            authorization is not None
            and authorization not in self._remembered
            and authorization[:6].lower() == "basic "
        )

    def known(self, authorization: str | None, address: str) -> Principal | None:
        """The client, if ``authenticate`` has accepted this header and no token changed since.

        None: call ``authenticate``. For the head of a request that may take the hot path.
        """
        try:
            self._look()
        except Refused:
            return None
        if authorization is None:
            return LOCAL if self._open and is_loopback(address) else None
        return self._remembered.get(authorization)

    def authenticate(self, authorization: str | None, address: str) -> Principal:
        """Who this is; Refused with 401 when the header names nobody, 429 after many of them."""
        self._look()
        if authorization is None:
            return self._nobody(address)
        known = self._remembered.get(authorization)
        if known is not None and (known.kind == "token" or not self._wait_s(address)):
            self.check_live(known)
            return known
        scheme, _, credentials = authorization.partition(" ")
        if scheme.lower() == "bearer":
            who = self._token(credentials.strip(), address)
        elif scheme.lower() == "basic":
            who = self._user(credentials.strip(), address)
        else:
            raise _unauthorized(_SAY_WHO)
        self._remember(authorization, who)
        return who

    def identify(self, authorization: str | None, address: str) -> Principal:
        """As ``authenticate``; NOBODY when there is no header. For public routes."""
        if authorization is None and not self.is_open:
            return NOBODY
        return self.authenticate(authorization, address)

    def redeem(self, ticket: str, address: str) -> Principal:
        """Whose ticket this is: for streams that cannot send a header."""
        self._look()
        who = self.tickets.take(ticket)
        if who is None:
            self._refuse_if_over(address)
            raise self._failed(address, "ticket", "this ticket was used, is over, or never was")
        self.check_live(who)
        return who

    def check_live(self, who: Principal) -> None:
        """401, when somebody who was let in may be so no longer."""
        if who.kind == "nobody":
            raise _unauthorized(_SAY_WHO)
        if who.kind == "local":
            if not self._open:
                raise _unauthorized("this server has tokens now: send one")
            return
        if who.kind == "token" and self._clock.now_us() >= who.expires_us:
            raise _unauthorized("this token has expired")
        reason = self._ended.get(who.id)
        if reason is None:
            reason = self._ended[who.id] = self._why_ended(who)
        if reason:
            raise _unauthorized(reason)

    # Whether he may

    def authorise(self, who: Principal, action: Action, topic: str = "") -> None:
        """Forbidden, unless he may do this with the topic (with the server when none is named)."""
        self._look()
        self.check_live(who)
        if not self._allowed(who, action, topic):
            on = f" {topic!r}" if topic else ""
            raise Forbidden(f"{who.name or who.id} may not {action}{on}")

    def grant(self, authorization: str | None, who: Principal, topic: str) -> None:
        """Remember that whoever sends this header may write to a topic, until anything changes."""
        if who.kind in ("local", "token"):  # users are asked each time: their keys can be guessed
            if len(self._granted) >= _REMEMBERED_MAX:
                self._granted.clear()
            self._granted[authorization, topic] = who

    def granted(self, authorization: str | None, address: str, topic: str) -> Principal | None:
        """Who this is, if he surely may write to a topic; None: ask, step by step."""
        if not self._is_as_seen():
            return None
        who = self._granted.get((authorization, topic))
        if who is None:
            return None
        if who.kind == "local":
            return who if self._open and is_loopback(address) else None
        return who if self._clock.now_us() < who.expires_us else None

    def may(self, who: Principal, action: Action, topic: str = "") -> bool:
        """The same as a question, for lists."""
        try:
            self.authorise(who, action, topic)
        except (Forbidden, Refused):
            return False
        return True

    def visible(self, who: Principal, names: Iterable[str]) -> list[str]:
        """Those of the topics that he may read."""
        self._look()
        self.check_live(who)
        return [name for name in names if self._allowed(who, "read", name)]

    def authorise_everything(self, who: Principal) -> None:
        """Forbidden, unless he may do all there is: for giving roles and grants to users."""
        self._look()
        self.check_live(who)
        if not self.scopes(who).cover(EVERYTHING):
            raise Forbidden(f"{who.name or who.id} may not do everything, as this needs")

    def scopes(self, who: Principal) -> Scopes:
        """What he may do now."""
        if who.kind != "user":
            return who.scopes
        found = self._rights.get(who.name)
        if found is None:
            found = self._rights[who.name] = user_principals.scopes_of(self._users().user(who.name))
        return found

    def _allowed(self, who: Principal, action: Action, topic: str) -> bool:
        return internal_topics.allowed(self.scopes(who), action, topic)

    # Streams that are open

    def on_revoked(self, tell: Callable[[str], object]) -> None:
        """Call this with the id of a principal who may be let in no longer, on the loop."""
        self._told.append(tell)

    def start(self) -> None:
        """Begin to watch for tokens that end. On the running loop."""
        if self._watch is None:
            found = self._store.health()
            told = {"bind": self._settings.bind, "health": found.status, "open": self.is_open}
            told |= {"found": "; ".join(found.reasons)} | _set_aside(self._store.set_aside())
            self.audit.note("start", told)
            self._watch = asyncio.get_running_loop().create_task(self._watching())

    async def stop(self) -> None:
        """End the watch, and put on record which tokens were used."""
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watch
        await asyncio.to_thread(self._write_used)

    def sweep(self) -> None:
        """One turn of the watch: tell of those who were let in and may be so no longer."""
        self._topics_without_users = -1
        for who in list(self._live.values()):
            try:
                self._look()
                self.check_live(who)
            except Refused:
                self._end(who)

    async def _watching(self) -> None:
        while True:
            await asyncio.sleep(_TURN_S)
            try:
                self.sweep()
                if self._used:
                    await asyncio.to_thread(self._write_used)
            except Exception as error:  # noqa: BLE001 - one bad turn must not end the watch
                _log.error("the watch over tokens failed", exc_info=error)

    def _end(self, who: Principal) -> None:
        self._live.pop(who.id, None)
        self.tickets.forget(who.id)
        for tell in self._told:
            tell(who.id)

    # Looking things up

    def _look(self) -> None:
        """Forget what was remembered when a token or user has changed since."""
        if self._is_as_seen():
            return
        try:
            self.registry.current()
            seen = (self.registry.version, self._users_head())
        except StrandlineError as error:
            self._remembered.clear()
            self._granted.clear()
            self._open = False
            self._seen = (-1, -1)
            raise Refused(503, "unavailable", "the tokens cannot be trusted: nobody may") from error
        if seen != self._seen:
            self._remembered.clear()
            self._granted.clear()
            self._rights.clear()
            self._ended.clear()
            self._open = self._private and not self.registry.begun and not seen[1]
            self._seen = seen

    def _is_as_seen(self) -> bool:
        """Whether surely nothing has changed: the heads of both topics are where they were."""
        users, registry = self._users_topic, self.registry
        if registry.version != self._seen[0] or not registry.is_current:
            return False
        if users is None:
            return self._store.topic_count() == self._topics_without_users
        return users.head_seq == self._seen[1]

    def _remember(self, authorization: str, who: Principal) -> None:
        if len(self._remembered) >= _REMEMBERED_MAX:
            self._remembered.clear()
        self._remembered[authorization] = who
        self._live[who.id] = who

    def _nobody(self, address: str) -> Principal:
        if self._open and is_loopback(address):
            self._live[LOCAL.id] = LOCAL
            return LOCAL
        raise _unauthorized(_SAY_WHO)

    def _token(self, text: str, address: str) -> Principal:
        if not is_loopback(address):
            self._refuse_if_over(address)
        token = self.registry.find(text)
        reason = _UNKNOWN if token is None else token.why_not(self._clock.now_us())
        if token is None or reason:
            self._refuse_if_over(address)
            raise self._failed(address, token.id if token else "", reason)
        self._note_use(token)
        return Principal(
            id=token.id,
            name=token.principal,
            scopes=token.parsed(),
            expires_us=token.expires_us,
        )

    def _user(self, credentials: str, address: str) -> Principal:
        # Keys that people choose can be guessed, so here nobody is spared the wait.
        self._refuse_if_over(address)
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

    def _why_ended(self, who: Principal) -> str:
        if who.kind == "user":
            return "" if self._user_now(who.name).active else "this user's key was revoked"
        token = self.registry.current().get(who.id)
        return _UNKNOWN if token is None else token.why_not(self._clock.now_us())

    def _user_now(self, name: str) -> User:
        return self._users().user(name)

    def _users(self) -> Users:
        return self._store.questions.users

    def _users_head(self) -> int:
        """How many changes users have seen; 0 when there are none, and their view is not made."""
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

    # Those who fail

    def _wait_s(self, address: str) -> float:
        return self.quotas.failures.wait_s(network_of(address))

    def _refuse_if_over(self, address: str) -> None:
        wait_s = self._wait_s(address)
        if wait_s > 0:
            raise Refused(
                429,
                "throttled",
                "too many wrong tokens came from this address: retry later",
                detail={"limit": "failures_per_minute", "retry_after_ms": round(wait_s * 1000)},
                retry_after_s=wait_s,
            )

    def _failed(self, address: str, named: str, reason: str) -> Refused:
        self.quotas.failures.pour(network_of(address))
        self.audit.note_failure("denied", {"named": named, "reason": reason}, address=address)
        if self._wait_s(address) > 0:
            self.audit.note_failure("locked-out", {"named": named}, address=address)
        return _unauthorized(reason)

    def _note_use(self, token: Token) -> None:
        now = datetime.fromtimestamp(self._clock.now_us() / 1e6, UTC)
        day = now.date().isoformat()
        if self.registry.last_used(token.id) != day:
            self._used[token.id] = day

    def _write_used(self) -> None:
        used, self._used = self._used, {}
        # A full disk, or damage: the day of use is not worth anybody's stream, or a clean end.
        with contextlib.suppress(StrandlineError):
            self.registry.note_used(used)


def _unauthorized(reason: str) -> Refused:
    return Refused(401, "unauthorized", reason)


def _set_aside(paths: list[str]) -> dict[str, object]:
    """Files that were taken out of use, as an entry tells them: one word each."""
    if not paths:
        return {}
    named = {f"set_aside_{place}": path for place, path in enumerate(paths[:_NAMED_MAX], start=1)}
    return {"set_aside": len(paths), **named}
