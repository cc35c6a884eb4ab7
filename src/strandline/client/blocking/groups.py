# Made from asynchronous/groups.py by tests/house/blocking.py: change that one.
"""Consumer groups of a server, their members, and what is delivered to them.

Reading for a member may be repeated: what a lost answer had in it is delivered again when its lease
is over. What is said of a delivery names its token; when that was said twice because an answer was
lost, and the record is then no longer the member's, this is told as Unreachable and never guessed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal
from urllib.parse import quote

import msgspec
from msgspec import UNSET

from strandline.api import groups as wire
from strandline.client.blocking.endpoint import RemoteRoute
from strandline.client.bytes_fields import bytes_of, sure_bytes
from strandline.client.name_validation import known
from strandline.client.request import Ask, Reply
from strandline.errors import Closed, Invalid, UnknownTopic, Unreachable
from strandline.log.topic.validation import check_timeout, check_whole
from strandline.records import Record, Tombstone, check_topic_name
from strandline.views.groups.consumer_group import READ_MAX
from strandline.views.groups.group_registry import DEAD, OFFSETS
from strandline.views.groups.group_state import GroupOptions
from strandline.views.groups.lag import GroupStatistics, PendingDelivery
from strandline.views.groups.options import options_of
from strandline.views.queue.job import Settled

_WAIT_S_MAX = 25.0
_AT_ONCE = 1000


class RemoteDelivery:
    """A record in the hands of a member. Safe from many threads."""

    __slots__ = ("deliveries", "member", "record", "token")

    def __init__(self, member: RemoteMember, record: Record, told: wire.Delivery) -> None:
        self.record = record
        self.member = member
        self.deliveries = told.deliveries
        """How often the record was delivered, this time included."""
        self.token = told.token

    def __repr__(self) -> str:
        return f"RemoteDelivery({self.seq}, number {self.deliveries}, to {self.member.name!r})"

    @property
    def seq(self) -> int:
        return self.record.seq

    @property
    def data(self) -> bytes:
        return self.record.data

    @property
    def key(self) -> bytes | None:
        return self.record.key

    def ack(self) -> bool:
        """Be done with it: it will not be delivered again. False when it is no longer yours."""
        return (self.member.ack_many((self,))).done == 1

    def nack(self, delay_s: float = 0.0) -> bool:
        """It was in vain: deliver it again, not before so many seconds. False as above."""
        check_timeout(delay_s)
        done = self.member.settle("nack", (self,), {"delay_ms": max(0.0, delay_s) * 1000})
        return done.done == 1

    def extend(self) -> bool:
        """Keep it for a whole lease from now on. False as above."""
        return (self.member.settle("extend", (self,), {})).done == 1


class RemoteMember:
    """A worker of a group. Get one from ``RemoteGroup.join``. Safe from many threads."""

    def __init__(self, at: RemoteRoute, name: str, incarnation: str) -> None:
        self.name = name
        self.incarnation = incarnation
        self.has_left = False
        self._at = at

    def __enter__(self) -> RemoteMember:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def __repr__(self) -> str:
        return f"RemoteMember({self.name!r})"

    def read(self, *, max: int = 1, wait_s: float = 0.0) -> list[RemoteDelivery]:
        """Records for this member, at most so many; when there are none, wait so long for one."""
        check_whole(max=max)
        check_timeout(wait_s)
        if not 1 <= max <= READ_MAX:
            raise Invalid(f"max is 1 to {READ_MAX}, not {max}")
        clock = self._at.clock
        until = clock.monotonic() + wait_s
        while True:
            left = until - clock.monotonic()
            now_s = min(_WAIT_S_MAX, left) if left > 0 else 0.0
            asked = wire.ReadRecords(**self._me(), max=max, wait_ms=round(now_s * 1000))
            reply = self._say("read", asked, wait_s=now_s, in_loop=True)
            found = reply.told(wire.Deliveries).deliveries
            if found or left <= now_s:
                return [RemoteDelivery(self, _record(each), each) for each in found]

    def ack_many(self, deliveries: Sequence[RemoteDelivery]) -> Settled:
        """Be done with these, for the price of one ack; those that are not this member's are
        skipped.
        """
        return self.settle("ack", deliveries, {})

    def leave(self) -> None:
        """Go; what this member holds goes to others at once. Leaving twice is fine."""
        if not self.has_left:
            self.has_left = True
            ask = Ask("POST", f"{self._at.path}/leave", body=_json(wire.Leave(**self._me())))
            try:
                self._at.ask(ask._replace(safe=True, closed_is_final=True))
            except Closed:
                return  # the group is gone, and with it the member

    def settle(
        self, verb: str, deliveries: Sequence[RemoteDelivery], said: dict[str, Any]
    ) -> Settled:
        """Say what became of deliveries: ``ack``, ``nack`` or ``extend``."""
        done, skipped = 0, []
        for place in range(0, len(deliveries), _AT_ONCE):
            some = deliveries[place : place + _AT_ONCE]
            held = [wire.Held(seq=each.seq, token=each.token) for each in some]
            kind = wire.Nack if verb == "nack" else wire.Settle
            reply = self._say(verb, kind(**self._me(), deliveries=held, **said))
            told = reply.told(wire.Settled)
            if told.skipped and reply.repeated and verb != "extend":
                raise Unreachable(
                    f"an answer was lost: {verb} of records {told.skipped} was done then, or came "
                    "too late; which of them is not known"
                )
            done += told.done
            skipped += told.skipped
        return Settled(done, tuple(skipped))

    def _say(
        self, verb: str, asked: object, *, wait_s: float = 0.0, in_loop: bool = False
    ) -> Reply:
        if self.has_left:
            raise Closed(f"{self.name!r} has left the group: join again")
        ask = Ask(
            "POST",
            f"{self._at.path}/{verb}",
            body=_json(asked),
            safe=True,
            wait_s=wait_s,
            in_loop=in_loop,
            closed_is_final=True,
        )
        return self._at.ask(ask)

    def _me(self) -> dict[str, Any]:
        return {"member": self.name, "incarnation": self.incarnation}


class RemoteGroup:
    """Members that share a topic. Safe from many threads."""

    def __init__(self, at: RemoteRoute, topic: str, name: str, options: GroupOptions) -> None:
        self.name = name
        self.options = options
        self._at = at
        self._topic = topic

    def __repr__(self) -> str:
        return f"RemoteGroup({self._topic!r}, {self.name!r}, {self.options.mode})"

    def join(self, name: str) -> RemoteMember:
        """A new member. One of the same name before it is shut out."""
        if not isinstance(name, str) or not name:
            raise Invalid(f"the name of a member is text, not {name!r}")
        told = self._at.find("join", wire.Join(member=name), wire.Joined)
        return RemoteMember(self._at, name, told.incarnation)

    def seek(
        self, to: int | Literal["earliest", "latest"] | None = None, *, ts: int | None = None
    ) -> None:
        """Go on with this seq, or with the records of a time (microseconds) and later.

        Everything from there on is delivered again, and nothing before. What members hold is no
        longer theirs.
        """
        if (to is None) == (ts is None):
            raise Invalid('say where to go on: a seq, "earliest", "latest", or ts=MICROSECONDS')
        if ts is not None:
            check_whole(ts=ts)
        elif to not in ("earliest", "latest"):
            check_whole(seq=to)
        self._at.do("seek", wire.Seek(to=to, ts_us=ts), wire.Lag)

    def lag(self) -> int:
        """Records that are neither done nor gone: what is behind, whoever has it."""
        return (self._at.get("lag", wire.Lag)).lag

    def pending(self) -> list[PendingDelivery]:
        """What members hold, in order of seq."""
        told = self._at.get("pending", wire.Pending)
        return msgspec.convert(msgspec.to_builtins(told.pending), list[PendingDelivery])

    def gaps(self) -> list[Tombstone]:
        """Where records were lost before the group was done with them, as met since opening."""
        told = self._at.get("gaps", wire.Gaps)
        return msgspec.convert(msgspec.to_builtins(told.gaps), list[Tombstone])

    def statistics(self) -> GroupStatistics:
        """The group's numbers at this moment."""
        told = msgspec.to_builtins(self._at.get("statistics", wire.GroupState))
        return msgspec.convert(told, GroupStatistics)


class RemoteGroups:
    """The groups of all topics. Safe from many threads."""

    def __init__(self, at: RemoteRoute) -> None:
        self._at = at.below("groups")

    def open(self, topic: str, name: str, options: dict[str, object]) -> RemoteGroup:
        """The group of this name on a topic, with these options; a new one if there is none."""
        check_topic_name(check_topic_name(topic) + OFFSETS)
        options_of(options)
        check_topic_name(name)
        check_topic_name(f"{topic}:{name}{DEAD}")
        at = self._at.below(topic, name)
        try:
            made = at.put("", options, wire.Group)
        except UnknownTopic:
            self._at.connection.ask(_make(topic))
            made = at.put("", options, wire.Group)
        return RemoteGroup(at, topic, name, _options(made))

    def alter(self, topic: str, name: str, **options: object) -> GroupOptions:
        """Give a group other options. Its members are told, and join again."""
        at = self._at.below(known(topic), name)
        return _options(at.patch("", options, wire.Group))

    def names(self, topic: str) -> list[str]:
        """The groups that a topic has."""
        return (self._at.below(known(topic)).get("", wire.GroupNames)).groups

    def delete(self, topic: str, name: str) -> bool:
        """Forget where a group stands; whether there was one. Its members are told."""
        at = self._at.below(known(topic), name)
        return (at.drop("", wire.GroupDeleted)).deleted


def _options(told: wire.Group) -> GroupOptions:
    fields = {name: getattr(told, name) for name in GroupOptions.__struct_fields__}
    return msgspec.convert(fields, GroupOptions)


def _record(told: wire.Delivery) -> Record:
    return Record(
        seq=told.seq,
        ts=told.us,
        data=sure_bytes(told.data, told.data_base64),
        key=bytes_of(told.key, told.key_base64),
        tag=None if told.tag is UNSET else told.tag,
        node=None if told.node is UNSET else told.node,
        meta=bytes_of(told.meta, told.meta_base64),
    )


def _make(topic: str) -> Ask:
    return Ask("PUT", f"/v0/topics/{quote(topic, safe='')}", {"if": "same"}, b"{}", safe=True)


def _json(asked: object) -> bytes:
    return msgspec.json.encode(asked)
