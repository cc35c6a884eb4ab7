"""Routes of key-value maps: every verb of ``store.kv(name)``. Keys are exact to the byte.

The client runs a transaction: it reads keys with their versions, and sends these versions with its
writes; all writes are applied if every version still holds, else none (``commit``). Routes that
wait are in ``kv_watch.py``.
"""

from __future__ import annotations

from functools import partial

import msgspec
from msgspec import UNSET
from starlette.responses import Response

from strandline.api import kv as wire
from strandline.api.bytes_fields import optional_key, required_key
from strandline.api.errors import Refused
from strandline.errors import Invalid, NotFound
from strandline.server.handlers.view_lookup import (
    find_kv,
    run_on_view,
    run_slow_on_view,
    write_to_view,
)
from strandline.server.http.request import RequestContext
from strandline.server.http.route import JsonResponse, Route, RoutePermission
from strandline.server.serializers import kv as codec
from strandline.views.kv.conditions import KeyWrite
from strandline.views.kv.kv import Kv
from strandline.views.kv.values import Key

OCTETS = "application/octet-stream"
_JSON_VALUE = msgspec.json.Decoder()


async def get(call: RequestContext) -> JsonResponse:
    body: wire.GetRequest = call.body
    key = codec.key_of(body)
    if body.version is None and body.ts_us is None:
        return JsonResponse(
            codec.found_entry(await run_on_view(call, find_kv, lambda kv: kv.entry(key)))
        )
    at = {"version": body.version, "ts": body.ts_us}
    return JsonResponse(
        codec.found_entry(await run_on_view(call, find_kv, lambda kv: kv.entry_at(key, **at)))
    )


async def mget(call: RequestContext) -> JsonResponse:
    body: wire.KeysRequest = call.body
    _check_count(call, "keys", len(body.keys))
    keys = [codec.key_of(each) for each in body.keys]
    values = await run_on_view(call, find_kv, lambda kv: kv.mget(keys))
    return JsonResponse(wire.ValuesResponse(values=[codec.value(each) for each in values]))


async def put(call: RequestContext) -> JsonResponse:
    body: wire.PutRequest = call.body
    key, value = codec.key_of(body), codec.value_of(body)
    ttl = codec.ttl_s(body.ttl_ms)
    nx, xx, version = body.nx, body.xx, body.version
    new_version = await write_to_view(
        call, find_kv, lambda kv: kv.put(key, value, ttl=ttl, nx=nx, xx=xx, version=version)
    )
    return JsonResponse(wire.VersionResponse(version=new_version))


async def put_many(call: RequestContext) -> JsonResponse:
    body: wire.PutManyRequest = call.body
    _check_count(call, "values", len(body.values))
    values: dict[Key, bytes] = {codec.key_of(e): codec.value_of(e) for e in body.values}
    if len(values) < len(body.values):
        raise Invalid("a key occurs twice: send it once")
    ttl = codec.ttl_s(body.ttl_ms)
    versions = await write_to_view(call, find_kv, lambda kv: kv.put_many(values, ttl=ttl))
    return JsonResponse(wire.VersionsResponse(versions=versions))


async def delete(call: RequestContext) -> JsonResponse:
    body: wire.DeleteRequest = call.body
    key = codec.key_of(body)
    deleted = await run_on_view(call, find_kv, lambda kv: kv.delete(key, version=body.version))
    return JsonResponse(wire.DeleteResponse(deleted=deleted))


async def batch(call: RequestContext) -> JsonResponse:
    body: wire.BatchRequest = call.body
    _check_count(call, "operations", len(body.operations))
    operations = [codec.operation(each) for each in body.operations]
    if any(each.delete for each in body.operations):
        call.allow("delete", call.path["topic"])
    versions = await write_to_view(call, find_kv, lambda kv: kv.batch(operations))
    return JsonResponse(wire.VersionsResponse(versions=versions))


async def commit(call: RequestContext) -> JsonResponse:
    body: wire.CommitRequest = call.body
    _check_count(call, "keys", len(body.seen) + len(body.writes))
    seen = codec.versions_seen(body.seen)
    now_us = call.parts.clock.now_us()
    writes: dict[Key, KeyWrite] = {codec.key_of(e): codec.write(e, now_us) for e in body.writes}
    if any(write.value is None for write in writes.values()):
        call.allow("delete", call.path["topic"])
    version = await write_to_view(call, find_kv, lambda kv: kv.commit(seen, writes))
    return JsonResponse(wire.VersionResponse(version=version))


async def incr(call: RequestContext) -> JsonResponse:
    body: wire.IncrRequest = call.body
    key = codec.key_of(body)
    return JsonResponse(
        wire.IncrResponse(
            number=await write_to_view(call, find_kv, lambda kv: kv.incr(key, body.delta))
        )
    )


async def touch(call: RequestContext) -> JsonResponse:
    body: wire.TouchRequest = call.body
    key = codec.key_of(body)
    version = await run_on_view(call, find_kv, lambda kv: kv.touch(key, body.ttl_ms / 1000))
    return JsonResponse(wire.VersionResponse(version=version))


async def persist(call: RequestContext) -> JsonResponse:
    key = codec.key_of(call.body)
    return JsonResponse(
        wire.VersionResponse(version=await run_on_view(call, find_kv, lambda kv: kv.persist(key)))
    )


async def json_get(call: RequestContext) -> JsonResponse:
    body: wire.JsonPathRequest = call.body
    key, missing = codec.key_of(body), object()
    value = await run_on_view(call, find_kv, lambda kv: kv.json_get(key, body.path, missing))
    if value is missing:
        return JsonResponse(wire.JsonPathResponse(found=False))
    return JsonResponse(
        wire.JsonPathResponse(found=True, value=msgspec.Raw(msgspec.json.encode(value)))
    )


async def json_set(call: RequestContext) -> JsonResponse:
    body: wire.JsonSetRequest = call.body
    key, value = codec.key_of(body), _JSON_VALUE.decode(body.value)
    version = await write_to_view(call, find_kv, lambda kv: kv.json_set(key, body.path, value))
    return JsonResponse(wire.VersionResponse(version=version))


async def json_delete(call: RequestContext) -> JsonResponse:
    body: wire.JsonPathRequest = call.body
    key = codec.key_of(body)
    deleted = await run_on_view(call, find_kv, lambda kv: kv.json_delete(key, body.path))
    return JsonResponse(wire.DeleteResponse(deleted=deleted))


async def history(call: RequestContext) -> JsonResponse:
    key = codec.key_of(call.body)
    versions = await run_on_view(call, find_kv, lambda kv: kv.history(key))
    return JsonResponse(
        wire.HistoryResponse(versions=[codec.old_version(each) for each in versions])
    )


async def scan(call: RequestContext) -> JsonResponse:
    body: wire.ScanRequest = call.body
    limit = max(1, min(body.limit, call.parts.settings.limits.page_records_max))
    prefix = optional_key("prefix", body.prefix, body.prefix_base64)
    first = optional_key("first", body.first, body.first_base64)
    next_key = optional_key("next", body.next, body.next_base64)
    after = optional_key("after", body.after, body.after_base64)

    def work(kv: Kv) -> wire.ScanResponse:
        found = kv.scan(
            prefix, first=first, next=next_key, after=after, limit=limit, reverse=body.reverse
        )
        entries = [codec.entry(each, keys_only=body.keys_only) for each in found]
        return wire.ScanResponse(entries=entries, more=len(entries) == limit)

    return JsonResponse(await run_slow_on_view(call, find_kv, work))


async def head(call: RequestContext) -> JsonResponse:
    head_version = await run_on_view(call, find_kv, lambda kv: kv.head)
    return JsonResponse(wire.HeadResponse(topic=call.path["topic"], head=head_version))


async def compact(call: RequestContext) -> JsonResponse:
    trimmed = await run_slow_on_view(call, find_kv, lambda kv: kv.compact())
    return JsonResponse(
        wire.CompactKvResponse(
            expired=trimmed.expired, forgotten=trimmed.forgotten, released=trimmed.released
        )
    )


async def get_value(call: RequestContext) -> Response:
    """Return the bytes of a value, as stored."""
    query: wire.ValueQuery = call.query
    key = required_key("key", query.key or UNSET, query.key_base64 or UNSET)
    current = await run_on_view(call, find_kv, lambda kv: kv.entry(key))
    if current is None:
        raise NotFound("no such key")
    headers = {"strandline-version": str(current.version), "content-type": OCTETS}
    return Response(current.value, headers=headers)


async def put_value(call: RequestContext) -> JsonResponse:
    query: wire.ValueQuery = call.query
    key = required_key("key", query.key or UNSET, query.key_base64 or UNSET)
    value, ttl = call.raw, codec.ttl_s(query.ttl_ms)
    nx, xx, version = query.nx, query.xx, query.version
    new_version = await write_to_view(
        call, find_kv, lambda kv: kv.put(key, value, ttl=ttl, nx=nx, xx=xx, version=version)
    )
    return JsonResponse(wire.VersionResponse(version=new_version))


def _check_count(call: RequestContext, what: str, count: int) -> None:
    count_max = call.parts.settings.limits.batch_records_max
    if count > count_max:
        raise Refused(
            400, "batch_too_large", f"send at most {count_max} {what}", detail={"max": count_max}
        )


_READ = (RoutePermission("read", "topic"),)
_WRITE = (RoutePermission("write", "topic"),)
_route = partial(Route, errors=("topic_not_found", "not_found", "conflict", "batch_too_large"))
_read = partial(_route, method="POST", needs=_READ)
_write = partial(_route, method="POST", needs=_WRITE)

ROUTES: tuple[Route, ...] = (
    _read(
        path="/v0/kv/{topic}/get",
        handler=get,
        summary="Get a key's value, version and expiry, now or at a version or time.",
        body=wire.GetRequest,
        answers={200: wire.EntryResponse},
    ),
    _read(
        path="/v0/kv/{topic}/mget",
        handler=mget,
        summary="Get the values of many keys.",
        body=wire.KeysRequest,
        answers={200: wire.ValuesResponse},
    ),
    _read(
        path="/v0/kv/{topic}/history",
        handler=history,
        summary="List the versions of a key, newest first.",
        body=wire.KeyRequest,
        answers={200: wire.HistoryResponse},
    ),
    _read(
        path="/v0/kv/{topic}/scan",
        handler=scan,
        summary="List entries in order of their keys, page by page.",
        body=wire.ScanRequest,
        answers={200: wire.ScanResponse},
    ),
    _read(
        path="/v0/kv/{topic}/json_get",
        handler=json_get,
        summary="Get the value at a path of a JSON document.",
        body=wire.JsonPathRequest,
        answers={200: wire.JsonPathResponse},
    ),
    _route(
        method="GET",
        path="/v0/kv/{topic}",
        handler=head,
        needs=_READ,
        summary="Get the version of the newest change.",
        answers={200: wire.HeadResponse},
    ),
    _route(
        method="GET",
        path="/v0/kv/{topic}/value",
        handler=get_value,
        needs=_READ,
        summary="Get the bytes of a value, without JSON around them.",
        query=wire.ValueQuery,
        answers={200: None},
        gives=(OCTETS,),
    ),
    _route(
        method="PUT",
        path="/v0/kv/{topic}/value",
        handler=put_value,
        needs=_WRITE,
        summary="Put the bytes of the body as a key's value.",
        query=wire.ValueQuery,
        body=bytes,
        takes=(OCTETS,),
        answers={200: wire.VersionResponse},
    ),
    _write(
        path="/v0/kv/{topic}/put",
        handler=put,
        summary="Put a value, with or without a time to live, if conditions hold.",
        body=wire.PutRequest,
        answers={200: wire.VersionResponse},
    ),
    _write(
        path="/v0/kv/{topic}/put_many",
        handler=put_many,
        summary="Put many values, all or none.",
        body=wire.PutManyRequest,
        answers={200: wire.VersionsResponse},
    ),
    _route(
        method="POST",
        path="/v0/kv/{topic}/delete",
        handler=delete,
        needs=(RoutePermission("delete", "topic"),),
        summary="Delete a key, optionally only at a version.",
        body=wire.DeleteRequest,
        answers={200: wire.DeleteResponse},
    ),
    _write(
        path="/v0/kv/{topic}/batch",
        handler=batch,
        summary="Apply puts and deletes with conditions, all or none.",
        body=wire.BatchRequest,
        answers={200: wire.VersionsResponse},
    ),
    _route(
        method="POST",
        path="/v0/kv/{topic}/commit",
        handler=commit,
        needs=(*_READ, *_WRITE),
        summary="Commit a transaction: write if the versions that it read still hold.",
        body=wire.CommitRequest,
        answers={200: wire.VersionResponse},
    ),
    _write(
        path="/v0/kv/{topic}/incr",
        handler=incr,
        summary="Add to a counter, which starts at 0.",
        body=wire.IncrRequest,
        answers={200: wire.IncrResponse},
    ),
    _write(
        path="/v0/kv/{topic}/touch",
        handler=touch,
        summary="Set a key's time to live.",
        body=wire.TouchRequest,
        answers={200: wire.VersionResponse},
    ),
    _write(
        path="/v0/kv/{topic}/persist",
        handler=persist,
        summary="Remove a key's time to live.",
        body=wire.KeyRequest,
        answers={200: wire.VersionResponse},
    ),
    _write(
        path="/v0/kv/{topic}/json_set",
        handler=json_set,
        summary="Set the value at a path of a JSON document.",
        body=wire.JsonSetRequest,
        answers={200: wire.VersionResponse},
    ),
    _write(
        path="/v0/kv/{topic}/json_delete",
        handler=json_delete,
        summary="Delete the value at a path of a JSON document.",
        body=wire.JsonPathRequest,
        answers={200: wire.DeleteResponse},
    ),
    _route(
        method="POST",
        path="/v0/kv/{topic}/compact",
        handler=compact,
        needs=(RoutePermission("config", "topic"),),
        summary="Trim records that no read can return any more.",
        answers={200: wire.CompactKvResponse},
    ),
)
