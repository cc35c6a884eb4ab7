# Made from asynchronous/groups.py by tests/house/blocking.py: change that one.
"""Consumer groups of a server, their members and deliveries.

A read of a member is safe to repeat: the records of a lost response are delivered again when their
lease has ended. An ack, nack or extend names the token of the delivery. If it was repeated because
a response was lost, and the member no longer holds the record, Unreachable is raised: it is not
known whether the first attempt was executed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal
from urllib.parse import quote

import msgspec
from msgspec import UNSET

from strandline.api import groups as wire
from strandline.client.blocking.endpoint import RemoteEndpoint
from strandline.client.bytes_fields import bytes_of, sure_bytes
from strandline.client.name_validation import check_possible_name
from strandline.client.request import Request, Response
from strandline.errors import Closed, Invalid, ObjectStoreUnreachable, UnknownTopic
from strandline.log.topic.validation import check_timeout, check_whole
from strandline.records import Record, Tombstone, check_topic_name
from strandline.views.groups.consumer_group import READ_MAX
from strandline.views.groups.group_registry import DEAD, OFFSETS
from strandline.views.groups.group_state import GroupOptions
from strandline.views.groups.lag import GroupStatistics, PendingDelivery
from strandline.views.groups.options import options_of
from strandline.views.queue.job import AckResult

_WAIT_S_MAX = 25.0
_BATCH_SIZE = 1000


class RemoteDelivery:
    """A record that is delivered to a member. Safe from many threads."""

    __slots__ = ("deliveries", "member", "record", "token")

    def __init__(self, member: RemoteMember, record: Record, delivery: wire.GroupDelivery) -> None:
        self.record = record
        self.member = member
        self.deliveries = delivery.deliveries
        """How often the record was delivered, including this time."""
        self.token = delivery.token

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
        """Report the record as done: it is not delivered again. False if the lease has ended."""
        return (self.member.ack_many((self,))).done == 1

    def nack(self, delay_s: float = 0.0) -> bool:
        """Return the record, to be delivered again after ``delay_s``. False as above."""
        check_timeout(delay_s)
        result = self.member.finish("nack", (self,), {"delay_ms": max(0.0, delay_s) * 1000})
        return result.done == 1

    def extend(self) -> bool:
        """Renew the lease for its whole time from now. False as above."""
        return (self.member.finish("extend", (self,), {})).done == 1


class RemoteMember:
    """A member of a group, from ``RemoteGroup.join``. Safe from many threads."""

    def __init__(self, endpoint: RemoteEndpoint, name: str, incarnation: str) -> None:
        self.name = name
        self.incarnation = incarnation
        self.has_left = False
        self._endpoint = endpoint

    def __enter__(self) -> RemoteMember:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def __repr__(self) -> str:
        return f"RemoteMember({self.name!r})"

    def read(self, *, max: int = 1, wait_s: float = 0.0) -> list[RemoteDelivery]:
        """At most ``max`` records for this member; if there are none, wait ``wait_s`` for one."""
        check_whole(max=max)
        check_timeout(wait_s)
        if not 1 <= max <= READ_MAX:
            raise Invalid(f"max is 1 to {READ_MAX}, not {max}")
        clock = self._endpoint.clock
        until = clock.monotonic() + wait_s
        while True:
            left = until - clock.monotonic()
            request_wait_s = min(_WAIT_S_MAX, left) if left > 0 else 0.0
            body = wire.ReadRecords(
                **self._identity(), max=max, wait_ms=round(request_wait_s * 1000)
            )
            response = self._send("read", body, wait_s=request_wait_s, in_loop=True)
            deliveries = response.decode(wire.DeliveriesResponse).deliveries
            if deliveries or left <= request_wait_s:
                return [RemoteDelivery(self, _record(each), each) for each in deliveries]

    def ack_many(self, deliveries: Sequence[RemoteDelivery]) -> AckResult:
        """Report records as done, at the cost of one ack; skip those that this member does not
        hold.
        """
        return self.finish("ack", deliveries, {})

    def leave(self) -> None:
        """Leave the group; its records go to other members at once. Leaving twice is fine."""
        if not self.has_left:
            self.has_left = True
            request = Request(
                "POST",
                f"{self._endpoint.path}/leave",
                body=_json(wire.LeaveRequest(**self._identity())),
            )
            try:
                self._endpoint.request(request._replace(safe=True, closed_is_final=True))
            except Closed:
                return  # the group was deleted, and with it the member

    def finish(
        self, verb: str, deliveries: Sequence[RemoteDelivery], fields: dict[str, Any]
    ) -> AckResult:
        """Send ``ack``, ``nack`` or ``extend`` for deliveries."""
        done, skipped = 0, []
        for first in range(0, len(deliveries), _BATCH_SIZE):
            batch = deliveries[first : first + _BATCH_SIZE]
            tokens = [wire.DeliveryHandle(seq=each.seq, token=each.token) for each in batch]
            kind = wire.NackDeliveriesRequest if verb == "nack" else wire.AckDeliveriesRequest
            response = self._send(verb, kind(**self._identity(), deliveries=tokens, **fields))
            result = response.decode(wire.AckDeliveriesResponse)
            if result.skipped and response.repeated and verb != "extend":
                raise ObjectStoreUnreachable(
                    f"a response was lost: {verb} of records {result.skipped} was executed then, "
                    "or came too late; which of the two is not known"
                )
            done += result.done
            skipped += result.skipped
        return AckResult(done, tuple(skipped))

    def _send(
        self, verb: str, body: object, *, wait_s: float = 0.0, in_loop: bool = False
    ) -> Response:
        if self.has_left:
            raise Closed(f"{self.name!r} has left the group: join again")
        request = Request(
            "POST",
            f"{self._endpoint.path}/{verb}",
            body=_json(body),
            safe=True,
            wait_s=wait_s,
            in_loop=in_loop,
            closed_is_final=True,
        )
        return self._endpoint.request(request)

    def _identity(self) -> dict[str, Any]:
        return {"member": self.name, "incarnation": self.incarnation}


class RemoteGroup:
    """Members that share a topic. Safe from many threads."""

    def __init__(
        self, endpoint: RemoteEndpoint, topic: str, name: str, options: GroupOptions
    ) -> None:
        self.name = name
        self.options = options
        self._endpoint = endpoint
        self._topic = topic

    def __repr__(self) -> str:
        return f"RemoteGroup({self._topic!r}, {self.name!r}, {self.options.mode})"

    def join(self, name: str) -> RemoteMember:
        """Join as a new member. An earlier member of this name is removed."""
        if not isinstance(name, str) or not name:
            raise Invalid(f"the name of a member is non-empty text, not {name!r}")
        response = self._endpoint.post_safe(
            "join", wire.JoinRequest(member=name), wire.JoinResponse
        )
        return RemoteMember(self._endpoint, name, response.incarnation)

    def seek(
        self, to: int | Literal["earliest", "latest"] | None = None, *, ts: int | None = None
    ) -> None:
        """Continue with this seq, or with the records of a time (microseconds) and later.

        All records from there on are delivered again, and none before. Members lose the records
        that they hold.
        """
        if (to is None) == (ts is None):
            raise Invalid('give a position: a seq, "earliest", "latest", or ts=MICROSECONDS')
        if ts is not None:
            check_whole(ts=ts)
        elif to not in ("earliest", "latest"):
            check_whole(seq=to)
        self._endpoint.post("seek", wire.SeekGroupRequest(to=to, ts_us=ts), wire.LagResponse)

    def lag(self) -> int:
        """The number of records that are neither done nor deleted, delivered or not."""
        return (self._endpoint.get("lag", wire.LagResponse)).lag

    def pending(self) -> list[PendingDelivery]:
        """The records that members hold, in order of seq."""
        response = self._endpoint.get("pending", wire.PendingResponse)
        return msgspec.convert(msgspec.to_builtins(response.pending), list[PendingDelivery])

    def gaps(self) -> list[Tombstone]:
        """Gaps of records that were lost before the group was done with them, found since the
        group was opened.
        """
        response = self._endpoint.get("gaps", wire.GapsResponse)
        return msgspec.convert(msgspec.to_builtins(response.gaps), list[Tombstone])

    def statistics(self) -> GroupStatistics:
        """The current statistics of the group."""
        fields = msgspec.to_builtins(self._endpoint.get("statistics", wire.GroupState))
        return msgspec.convert(fields, GroupStatistics)


class RemoteGroups:
    """The groups of all topics. Safe from many threads."""

    def __init__(self, endpoint: RemoteEndpoint) -> None:
        self._endpoint = endpoint.below("groups")

    def open(self, topic: str, name: str, options: dict[str, object]) -> RemoteGroup:
        """Open the group of this name on a topic with these options; create it if it is absent."""
        check_topic_name(check_topic_name(topic) + OFFSETS)
        options_of(options)
        check_topic_name(name)
        check_topic_name(f"{topic}:{name}{DEAD}")
        endpoint = self._endpoint.below(topic, name)
        try:
            group = endpoint.put("", options, wire.GroupInfo)
        except UnknownTopic:
            self._endpoint.connection.request(_create_topic(topic))
            group = endpoint.put("", options, wire.GroupInfo)
        return RemoteGroup(endpoint, topic, name, _options(group))

    def alter(self, topic: str, name: str, **options: object) -> GroupOptions:
        """Change the options of a group. Its members get an error, and have to join again."""
        endpoint = self._endpoint.below(check_possible_name(topic), name)
        return _options(endpoint.patch("", options, wire.GroupInfo))

    def names(self, topic: str) -> list[str]:
        """The names of the groups of a topic."""
        return (
            self._endpoint.below(check_possible_name(topic)).get("", wire.GroupsResponse)
        ).groups

    def delete(self, topic: str, name: str) -> bool:
        """Delete a group and its offsets; return whether it existed. Its members get an error."""
        endpoint = self._endpoint.below(check_possible_name(topic), name)
        return (endpoint.delete("", wire.DeleteGroupResponse)).deleted


def _options(group: wire.GroupInfo) -> GroupOptions:
    values = {name: getattr(group, name) for name in GroupOptions.__struct_fields__}
    return msgspec.convert(values, GroupOptions)


def _record(delivery: wire.GroupDelivery) -> Record:
    return Record(
        seq=delivery.seq,
        ts=delivery.us,
        data=sure_bytes(delivery.data, delivery.data_base64),
        key=bytes_of(delivery.key, delivery.key_base64),
        tag=None if delivery.tag is UNSET else delivery.tag,
        node=None if delivery.node is UNSET else delivery.node,
        meta=bytes_of(delivery.meta, delivery.meta_base64),
    )


def _create_topic(topic: str) -> Request:
    return Request("PUT", f"/v0/topics/{quote(topic, safe='')}", {"if": "same"}, b"{}", safe=True)


def _json(body: object) -> bytes:
    return msgspec.json.encode(body)
