"""Routes of consumer groups: every verb of ``store.group(topic, name)``.

A member is in the memory of the server that it joined, and its incarnation names the opening of
the group that it joined. After a restart, or when the group was opened again, its requests fail
with ``fenced``. Then the client opens the group again and joins again: deliveries that the member
held are delivered again, and a late ack of them changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, NoReturn, TypeVar

import msgspec
from msgspec import UNSET

from strandline.api import groups as wire
from strandline.api.bytes_fields import told_key, told_value
from strandline.api.errors import Refused
from strandline.errors import Fenced, Invalid, NotFound
from strandline.server.async_wait import Patience
from strandline.server.http.request import Call
from strandline.server.http.route import Answer, Need, Route
from strandline.store import Store
from strandline.views.groups.consumer_group import Group
from strandline.views.groups.group_state import GroupOptions
from strandline.views.groups.member import Delivery, Member

WAIT_MS_MAX = 30_000
NAP_S_MIN = 0.001

Result = TypeVar("Result")


class _Held(NamedTuple):
    """A delivery by seq and token: the fields that a group reads of it."""

    seq: int
    token: int


async def names(call: Call) -> Answer:
    def work(store: Store) -> list[str]:
        topic = store.existing_topic(call.path["topic"])
        return store.groups.names(topic.name)

    group_names = await call.parts.bridge.run(work, call.parts.store)
    return Answer(wire.GroupNames(topic=call.path["topic"], groups=group_names))


async def make(call: Call) -> Answer:
    """Open a group, with these options if it is new."""
    options = _request_options(call)

    def work(store: Store) -> wire.Group:
        topic = store.existing_topic(call.path["topic"])
        group = store.group(topic.name, call.path["group"], **options)
        return _to_wire(topic.name, group.name, group.options)

    return Answer(await call.parts.bridge.run(work, call.parts.store))


async def alter(call: Call) -> Answer:
    """Change a group's options. Its members get ``fenced``, and join again."""
    topic, name, options = call.path["topic"], call.path["group"], _request_options(call)

    def work(store: Store) -> wire.Group:
        return _to_wire(topic, name, store.groups.alter(topic, name, **options))

    return Answer(await call.parts.bridge.run(work, call.parts.store))


async def describe(call: Call) -> Answer:
    return Answer(
        await _run_on_group(
            call, lambda group: _to_wire(call.path["topic"], group.name, group.options)
        )
    )


async def delete(call: Call) -> Answer:
    topic, name = call.path["topic"], call.path["group"]
    deleted = await call.parts.bridge.run(call.parts.store.groups.delete, topic, name)
    return Answer(wire.GroupDeleted(topic=topic, group=name, deleted=deleted))


async def join(call: Call) -> Answer:
    body: wire.Join = call.body

    def work(group: Group) -> wire.Joined:
        if group is not call.parts.store.groups.find(call.path["topic"], group.name):
            _not_open(call)
        member = group.join(body.member)
        incarnation = f"{group.generation}.{member.incarnation}"
        return wire.Joined(member=member.name, incarnation=incarnation)

    return Answer(await _run_on_group(call, work))


async def leave(call: Call) -> Answer:
    body: wire.Leave = call.body

    def work(group: Group) -> wire.Settled:
        group.leave(_member(group, body))
        return wire.Settled(done=1, skipped=[])

    return Answer(await _run_on_group(call, work))


async def read(call: Call) -> Answer:
    body: wire.ReadRecords = call.body
    count = max(1, min(body.max, call.parts.settings.limits.claim_max))
    bridge = call.parts.bridge
    group = await _run_on_group(call, lambda group: group)
    topic = call.parts.store.existing_topic(call.path["topic"])
    member = _member(group, body)
    deliveries: list[Delivery] = []
    wait_s = min(body.wait_ms, WAIT_MS_MAX) / 1000
    with Patience(call, wait_s) as request_wait, group.calling(request_wait.ring):
        while not request_wait.is_alone:
            request_wait.clear()
            head = topic.head_seq
            deliveries = await bridge.run_view(topic.name, group.read, member, count, 0.0)
            if deliveries or not request_wait.left_s:
                break
            due_s = await bridge.run_view(topic.name, group.due_s)
            await request_wait.something_new(topic, head, max(NAP_S_MIN, due_s))
    return Answer(wire.Deliveries(deliveries=[_delivery(each) for each in deliveries]))


async def ack(call: Call) -> Answer:
    body: wire.Settle = call.body
    _check_count(call, len(body.deliveries))

    def work(group: Group) -> wire.Settled:
        held = [_Held(each.seq, each.token) for each in body.deliveries]
        done = group.ack(_member(group, body), held)
        return wire.Settled(done=done.done, skipped=list(done.skipped))

    return Answer(await _run_on_group(call, work))


async def nack(call: Call) -> Answer:
    body: wire.Nack = call.body
    delay_s = body.delay_ms / 1000
    return Answer(await _each(call, lambda group, member, one: group.nack(member, one, delay_s)))


async def extend(call: Call) -> Answer:
    return Answer(await _each(call, lambda group, member, one: group.extend(member, one)))


async def seek(call: Call) -> Answer:
    body: wire.Seek = call.body

    def work(group: Group) -> wire.Lag:
        group.seek(body.to, ts=body.ts_us)
        return wire.Lag(lag=group.lag())

    return Answer(await _run_on_group(call, work))


async def lag(call: Call) -> Answer:
    return Answer(wire.Lag(lag=await _run_on_group(call, lambda group: group.lag())))


async def pending(call: Call) -> Answer:
    def work(group: Group) -> wire.Pending:
        pending = msgspec.convert(group.pending(), list[wire.PendingDelivery], from_attributes=True)
        return wire.Pending(pending=pending)

    return Answer(await _run_on_group(call, work))


async def gaps(call: Call) -> Answer:
    def work(group: Group) -> wire.Gaps:
        gaps = msgspec.convert(group.gaps(), list[wire.Gap], from_attributes=True)
        return wire.Gaps(gaps=gaps)

    return Answer(await _run_on_group(call, work))


async def state(call: Call) -> Answer:
    def work(group: Group) -> wire.GroupState:
        return msgspec.convert(group.statistics(), wire.GroupState, from_attributes=True)

    return Answer(await _run_on_group(call, work))


async def _run_on_group(call: Call, work: Callable[[Group], Result]) -> Result:
    """Run ``work`` on the group of the path, open or not."""
    return await call.parts.bridge.run_view(call.path["topic"], lambda: work(_find(call)))


def _find(call: Call) -> Group:
    """The group of the path. Requests do not create one: a mistyped name would leave one."""
    store, name = call.parts.store, call.path["group"]
    topic = store.existing_topic(call.path["topic"])
    group = store.groups.look_at(topic.name, name)
    return _not_open(call) if group is None else group


def _not_open(call: Call) -> NoReturn:
    topic, name = call.path["topic"], call.path["group"]
    raise NotFound(
        f"no group {name!r} of topic {topic!r} is open: open it with PUT /v0/groups/{topic}/{name}"
    )


async def _each(call: Call, act: Callable[[Group, Member, _Held], bool]) -> wire.Settled:
    body: wire.Settle | wire.Nack = call.body
    _check_count(call, len(body.deliveries))

    def work(group: Group) -> wire.Settled:
        member = _member(group, body)
        held = [_Held(each.seq, each.token) for each in body.deliveries]
        skipped = [each.seq for each in held if not act(group, member, each)]
        return wire.Settled(done=len(held) - len(skipped), skipped=skipped)

    return await _run_on_group(call, work)


def _member(group: Group, body: wire.Leave | wire.ReadRecords | wire.Settle | wire.Nack) -> Member:
    """The member of a request; Fenced when it joined another opening of the group."""
    generation, _, incarnation = body.incarnation.partition(".")
    if not (generation.isdigit() and incarnation.isdigit() and body.incarnation.isascii()):
        raise Invalid("incarnation is not one that join returned")
    if int(generation) != group.generation:
        raise Fenced(f"{body.member!r} joined an earlier opening of the group: join again")
    return Member(group, body.member, int(incarnation))


def _delivery(each: Delivery) -> wire.Delivery:
    record = each.record
    data, data_base64 = told_value(record.data)
    key, key_base64 = (UNSET, UNSET) if record.key is None else told_key(record.key)
    meta, meta_base64 = (UNSET, UNSET) if record.meta is None else told_value(record.meta)
    return wire.Delivery(
        seq=record.seq,
        ts=record.ts // 1000,
        us=record.ts,
        token=each.token,
        deliveries=each.deliveries,
        key=key,
        key_base64=key_base64,
        tag=UNSET if record.tag is None else record.tag,
        node=UNSET if record.node is None else record.node,
        data=data,
        data_base64=data_base64,
        meta=meta,
        meta_base64=meta_base64,
    )


def _request_options(call: Call) -> dict[str, object]:
    """The options that a request sets."""
    fields = msgspec.structs.asdict(call.body)
    return {name: value for name, value in fields.items() if value is not UNSET}


def _to_wire(topic: str, name: str, options: GroupOptions) -> wire.Group:
    return wire.Group(
        topic=topic,
        group=name,
        mode=options.mode,
        lease_s=options.lease_s,
        deliveries_max=options.deliveries_max,
        window=options.window,
        start=options.start,
    )


def _check_count(call: Call, count: int) -> None:
    count_max = call.parts.settings.limits.claim_max
    if count > count_max:
        raise Refused(400, "batch_too_large", f"send at most {count_max} deliveries, not {count}")


_route = partial(Route, errors=("topic_not_found", "not_found", "shutting_down"))
_consume = partial(_route, method="POST", needs=(Need("consume", "topic"),))
_get = partial(_route, method="GET", needs=(Need("read", "topic"),))
_PATH = "/v0/groups/{topic}/{group}"

ROUTES: tuple[Route, ...] = (
    _get(
        path="/v0/groups/{topic}",
        handler=names,
        summary="List the groups of a topic.",
        answers={200: wire.GroupNames},
    ),
    _route(
        method="PUT",
        path=_PATH,
        handler=make,
        needs=(Need("consume", "topic"),),
        summary="Open a group, with these options if it is new.",
        body=wire.GroupOptions,
        answers={200: wire.Group},
    ),
    _route(
        method="PATCH",
        path=_PATH,
        handler=alter,
        needs=(Need("config", "topic"),),
        summary="Change a group's options; its members have to join again.",
        body=wire.GroupOptions,
        answers={200: wire.Group},
    ),
    _get(path=_PATH, handler=describe, summary="Get a group's options.", answers={200: wire.Group}),
    _route(
        method="DELETE",
        path=_PATH,
        handler=delete,
        needs=(Need("config", "topic"),),
        summary="Delete a group with its offsets.",
        answers={200: wire.GroupDeleted},
    ),
    _consume(
        path=f"{_PATH}/join",
        handler=join,
        summary="Join as a member; an earlier one of the same name is fenced.",
        body=wire.Join,
        answers={200: wire.Joined},
    ),
    _consume(
        path=f"{_PATH}/leave",
        handler=leave,
        summary="Leave; deliveries of the member go to others at once.",
        body=wire.Leave,
        answers={200: wire.Settled},
    ),
    _route(
        method="POST",
        path=f"{_PATH}/read",
        handler=read,
        needs=(Need("consume", "topic"), Need("read", "topic")),
        summary="Read records as a member; can wait for one.",
        body=wire.ReadRecords,
        answers={200: wire.Deliveries},
    ),
    _consume(
        path=f"{_PATH}/ack",
        handler=ack,
        summary="Acknowledge deliveries.",
        body=wire.Settle,
        answers={200: wire.Settled},
    ),
    _consume(
        path=f"{_PATH}/nack",
        handler=nack,
        summary="Return deliveries, to be delivered again at once or after a delay.",
        body=wire.Nack,
        answers={200: wire.Settled},
    ),
    _consume(
        path=f"{_PATH}/extend",
        handler=extend,
        summary="Extend deliveries by a whole lease from now on.",
        body=wire.Settle,
        answers={200: wire.Settled},
    ),
    _route(
        method="POST",
        path=f"{_PATH}/seek",
        handler=seek,
        needs=(Need("config", "topic"),),
        summary="Move a group to a seq, a time, the earliest or the latest record.",
        body=wire.Seek,
        answers={200: wire.Lag},
    ),
    _get(path=f"{_PATH}/lag", handler=lag, summary="Get a group's lag.", answers={200: wire.Lag}),
    _get(
        path=f"{_PATH}/pending",
        handler=pending,
        summary="List deliveries that members hold.",
        answers={200: wire.Pending},
    ),
    _get(
        path=f"{_PATH}/gaps",
        handler=gaps,
        summary="List gaps: records lost before the group acknowledged them.",
        answers={200: wire.Gaps},
    ),
    _get(
        path=f"{_PATH}/statistics",
        handler=state,
        summary="Get a group's statistics.",
        answers={200: wire.GroupState},
    ),
)
