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
from strandline.api.bytes_fields import key_fields, value_fields
from strandline.api.errors import Refused
from strandline.errors import Fenced, Invalid, NotFound
from strandline.server.async_wait import RequestWait
from strandline.server.http.request import RequestContext
from strandline.server.http.route import JsonResponse, Route, RoutePermission
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


async def names(call: RequestContext) -> JsonResponse:
    def work(store: Store) -> list[str]:
        topic = store.existing_topic(call.path["topic"])
        return store.groups.names(topic.name)

    group_names = await call.parts.bridge.run(work, call.parts.store)
    return JsonResponse(wire.GroupsResponse(topic=call.path["topic"], groups=group_names))


async def make(call: RequestContext) -> JsonResponse:
    """Open a group, with these options if it is new."""
    options = _request_options(call)

    def work(store: Store) -> wire.GroupInfo:
        topic = store.existing_topic(call.path["topic"])
        group = store.group(topic.name, call.path["group"], **options)
        return _to_wire(topic.name, group.name, group.options)

    return JsonResponse(await call.parts.bridge.run(work, call.parts.store))


async def alter(call: RequestContext) -> JsonResponse:
    """Change a group's options. Its members get ``fenced``, and join again."""
    topic, name, options = call.path["topic"], call.path["group"], _request_options(call)

    def work(store: Store) -> wire.GroupInfo:
        return _to_wire(topic, name, store.groups.alter(topic, name, **options))

    return JsonResponse(await call.parts.bridge.run(work, call.parts.store))


async def describe(call: RequestContext) -> JsonResponse:
    return JsonResponse(
        await _run_on_group(
            call, lambda group: _to_wire(call.path["topic"], group.name, group.options)
        )
    )


async def delete(call: RequestContext) -> JsonResponse:
    topic, name = call.path["topic"], call.path["group"]
    deleted = await call.parts.bridge.run(call.parts.store.groups.delete, topic, name)
    return JsonResponse(wire.DeleteGroupResponse(topic=topic, group=name, deleted=deleted))


async def join(call: RequestContext) -> JsonResponse:
    body: wire.JoinRequest = call.body

    def work(group: Group) -> wire.JoinResponse:
        if group is not call.parts.store.groups.find(call.path["topic"], group.name):
            _not_open(call)
        member = group.join(body.member)
        incarnation = f"{group.generation}.{member.incarnation}"
        return wire.JoinResponse(member=member.name, incarnation=incarnation)

    return JsonResponse(await _run_on_group(call, work))


async def leave(call: RequestContext) -> JsonResponse:
    body: wire.LeaveRequest = call.body

    def work(group: Group) -> wire.AckDeliveriesResponse:
        group.leave(_member(group, body))
        return wire.AckDeliveriesResponse(done=1, skipped=[])

    return JsonResponse(await _run_on_group(call, work))


async def read(call: RequestContext) -> JsonResponse:
    body: wire.ReadRecords = call.body
    count = max(1, min(body.max, call.parts.settings.limits.claim_max))
    bridge = call.parts.bridge
    group = await _run_on_group(call, lambda group: group)
    topic = call.parts.store.existing_topic(call.path["topic"])
    member = _member(group, body)
    deliveries: list[Delivery] = []
    wait_s = min(body.wait_ms, WAIT_MS_MAX) / 1000
    with RequestWait(call, wait_s) as request_wait, group.subscribe(request_wait.notify):
        while not request_wait.is_disconnected:
            request_wait.clear()
            head = topic.head_seq
            deliveries = await bridge.run_view(topic.name, group.read, member, count, 0.0)
            if deliveries or not request_wait.left_s:
                break
            due_s = await bridge.run_view(topic.name, group.due_s)
            await request_wait.wait_for_record(topic, head, max(NAP_S_MIN, due_s))
    return JsonResponse(
        wire.DeliveriesResponse(deliveries=[_delivery(each) for each in deliveries])
    )


async def ack(call: RequestContext) -> JsonResponse:
    body: wire.AckDeliveriesRequest = call.body
    _check_count(call, len(body.deliveries))

    def work(group: Group) -> wire.AckDeliveriesResponse:
        held = [_Held(each.seq, each.token) for each in body.deliveries]
        done = group.ack(_member(group, body), held)
        return wire.AckDeliveriesResponse(done=done.done, skipped=list(done.skipped))

    return JsonResponse(await _run_on_group(call, work))


async def nack(call: RequestContext) -> JsonResponse:
    body: wire.NackDeliveriesRequest = call.body
    delay_s = body.delay_ms / 1000
    return JsonResponse(
        await _each(call, lambda group, member, one: group.nack(member, one, delay_s))
    )


async def extend(call: RequestContext) -> JsonResponse:
    return JsonResponse(await _each(call, lambda group, member, one: group.extend(member, one)))


async def seek(call: RequestContext) -> JsonResponse:
    body: wire.SeekGroupRequest = call.body

    def work(group: Group) -> wire.LagResponse:
        group.seek(body.to, ts=body.ts_us)
        return wire.LagResponse(lag=group.lag())

    return JsonResponse(await _run_on_group(call, work))


async def lag(call: RequestContext) -> JsonResponse:
    return JsonResponse(wire.LagResponse(lag=await _run_on_group(call, lambda group: group.lag())))


async def pending(call: RequestContext) -> JsonResponse:
    def work(group: Group) -> wire.PendingResponse:
        pending = msgspec.convert(
            group.pending(), list[wire.PendingDeliveryInfo], from_attributes=True
        )
        return wire.PendingResponse(pending=pending)

    return JsonResponse(await _run_on_group(call, work))


async def gaps(call: RequestContext) -> JsonResponse:
    def work(group: Group) -> wire.GapsResponse:
        gaps = msgspec.convert(group.gaps(), list[wire.GroupGap], from_attributes=True)
        return wire.GapsResponse(gaps=gaps)

    return JsonResponse(await _run_on_group(call, work))


async def state(call: RequestContext) -> JsonResponse:
    def work(group: Group) -> wire.GroupState:
        return msgspec.convert(group.statistics(), wire.GroupState, from_attributes=True)

    return JsonResponse(await _run_on_group(call, work))


async def _run_on_group(call: RequestContext, work: Callable[[Group], Result]) -> Result:
    """Run ``work`` on the group of the path, open or not."""
    return await call.parts.bridge.run_view(call.path["topic"], lambda: work(_find(call)))


def _find(call: RequestContext) -> Group:
    """The group of the path. Requests do not create one: a mistyped name would leave one."""
    store, name = call.parts.store, call.path["group"]
    topic = store.existing_topic(call.path["topic"])
    group = store.groups.find_stored(topic.name, name)
    return _not_open(call) if group is None else group


def _not_open(call: RequestContext) -> NoReturn:
    topic, name = call.path["topic"], call.path["group"]
    raise NotFound(
        f"no group {name!r} of topic {topic!r} is open: open it with PUT /v0/groups/{topic}/{name}"
    )


async def _each(
    call: RequestContext, act: Callable[[Group, Member, _Held], bool]
) -> wire.AckDeliveriesResponse:
    body: wire.AckDeliveriesRequest | wire.NackDeliveriesRequest = call.body
    _check_count(call, len(body.deliveries))

    def work(group: Group) -> wire.AckDeliveriesResponse:
        member = _member(group, body)
        held = [_Held(each.seq, each.token) for each in body.deliveries]
        skipped = [each.seq for each in held if not act(group, member, each)]
        return wire.AckDeliveriesResponse(done=len(held) - len(skipped), skipped=skipped)

    return await _run_on_group(call, work)


def _member(
    group: Group,
    body: wire.LeaveRequest
    | wire.ReadRecords
    | wire.AckDeliveriesRequest
    | wire.NackDeliveriesRequest,
) -> Member:
    """The member of a request; Fenced when it joined another opening of the group."""
    generation, _, incarnation = body.incarnation.partition(".")
    if not (generation.isdigit() and incarnation.isdigit() and body.incarnation.isascii()):
        raise Invalid("incarnation is not one that join returned")
    if int(generation) != group.generation:
        raise Fenced(f"{body.member!r} joined an earlier opening of the group: join again")
    return Member(group, body.member, int(incarnation))


def _delivery(each: Delivery) -> wire.GroupDelivery:
    record = each.record
    data, data_base64 = value_fields(record.data)
    key, key_base64 = (UNSET, UNSET) if record.key is None else key_fields(record.key)
    meta, meta_base64 = (UNSET, UNSET) if record.meta is None else value_fields(record.meta)
    return wire.GroupDelivery(
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


def _request_options(call: RequestContext) -> dict[str, object]:
    """The options that a request sets."""
    fields = msgspec.structs.asdict(call.body)
    return {name: value for name, value in fields.items() if value is not UNSET}


def _to_wire(topic: str, name: str, options: GroupOptions) -> wire.GroupInfo:
    return wire.GroupInfo(
        topic=topic,
        group=name,
        mode=options.mode,
        lease_s=options.lease_s,
        deliveries_max=options.deliveries_max,
        window=options.window,
        start=options.start,
    )


def _check_count(call: RequestContext, count: int) -> None:
    count_max = call.parts.settings.limits.claim_max
    if count > count_max:
        raise Refused(400, "batch_too_large", f"send at most {count_max} deliveries, not {count}")


_route = partial(Route, errors=("topic_not_found", "not_found", "shutting_down"))
_consume = partial(_route, method="POST", needs=(RoutePermission("consume", "topic"),))
_get = partial(_route, method="GET", needs=(RoutePermission("read", "topic"),))
_PATH = "/v0/groups/{topic}/{group}"

ROUTES: tuple[Route, ...] = (
    _get(
        path="/v0/groups/{topic}",
        handler=names,
        summary="List the groups of a topic.",
        answers={200: wire.GroupsResponse},
    ),
    _route(
        method="PUT",
        path=_PATH,
        handler=make,
        needs=(RoutePermission("consume", "topic"),),
        summary="Open a group, with these options if it is new.",
        body=wire.GroupOptionsRequest,
        answers={200: wire.GroupInfo},
    ),
    _route(
        method="PATCH",
        path=_PATH,
        handler=alter,
        needs=(RoutePermission("config", "topic"),),
        summary="Change a group's options; its members have to join again.",
        body=wire.GroupOptionsRequest,
        answers={200: wire.GroupInfo},
    ),
    _get(
        path=_PATH,
        handler=describe,
        summary="Get a group's options.",
        answers={200: wire.GroupInfo},
    ),
    _route(
        method="DELETE",
        path=_PATH,
        handler=delete,
        needs=(RoutePermission("config", "topic"),),
        summary="Delete a group with its offsets.",
        answers={200: wire.DeleteGroupResponse},
    ),
    _consume(
        path=f"{_PATH}/join",
        handler=join,
        summary="Join as a member; an earlier one of the same name is fenced.",
        body=wire.JoinRequest,
        answers={200: wire.JoinResponse},
    ),
    _consume(
        path=f"{_PATH}/leave",
        handler=leave,
        summary="Leave; deliveries of the member go to others at once.",
        body=wire.LeaveRequest,
        answers={200: wire.AckDeliveriesResponse},
    ),
    _route(
        method="POST",
        path=f"{_PATH}/read",
        handler=read,
        needs=(RoutePermission("consume", "topic"), RoutePermission("read", "topic")),
        summary="Read records as a member; can wait for one.",
        body=wire.ReadRecords,
        answers={200: wire.DeliveriesResponse},
    ),
    _consume(
        path=f"{_PATH}/ack",
        handler=ack,
        summary="Acknowledge deliveries.",
        body=wire.AckDeliveriesRequest,
        answers={200: wire.AckDeliveriesResponse},
    ),
    _consume(
        path=f"{_PATH}/nack",
        handler=nack,
        summary="Return deliveries, to be delivered again at once or after a delay.",
        body=wire.NackDeliveriesRequest,
        answers={200: wire.AckDeliveriesResponse},
    ),
    _consume(
        path=f"{_PATH}/extend",
        handler=extend,
        summary="Extend deliveries by a whole lease from now on.",
        body=wire.AckDeliveriesRequest,
        answers={200: wire.AckDeliveriesResponse},
    ),
    _route(
        method="POST",
        path=f"{_PATH}/seek",
        handler=seek,
        needs=(RoutePermission("config", "topic"),),
        summary="Move a group to a seq, a time, the earliest or the latest record.",
        body=wire.SeekGroupRequest,
        answers={200: wire.LagResponse},
    ),
    _get(
        path=f"{_PATH}/lag",
        handler=lag,
        summary="Get a group's lag.",
        answers={200: wire.LagResponse},
    ),
    _get(
        path=f"{_PATH}/pending",
        handler=pending,
        summary="List deliveries that members hold.",
        answers={200: wire.PendingResponse},
    ),
    _get(
        path=f"{_PATH}/gaps",
        handler=gaps,
        summary="List gaps: records lost before the group acknowledged them.",
        answers={200: wire.GapsResponse},
    ),
    _get(
        path=f"{_PATH}/statistics",
        handler=state,
        summary="Get a group's statistics.",
        answers={200: wire.GroupState},
    ),
)
