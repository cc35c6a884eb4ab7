"""Routes of key-value maps: every verb of ``store.kv(name)``. Keys are exact to the byte.

A transaction is made by the client: it reads keys with their versions, and sends what it has seen
with what it wants to write; both count, or nothing does (``commit``). ``kv_watch.py`` has what
waits.
"""

from __future__ import annotations

from functools import partial

import msgspec
from msgspec import UNSET
from starlette.responses import Response

from strandline.api import kv as wire
from strandline.api.bytes_fields import found_key, given_key
from strandline.api.errors import Refused
from strandline.errors import Invalid, NotFound
from strandline.server.handlers.view_lookup import ask, ask_slowly, find_kv, write
from strandline.server.http.request import Call
from strandline.server.http.route import Answer, Need, Route
from strandline.server.serializers import kv as told
from strandline.views.kv.conditions import Write
from strandline.views.kv.kv import Kv
from strandline.views.kv.values import Key

OCTETS = "application/octet-stream"
_JSON_PLACE = msgspec.json.Decoder()


async def get(call: Call) -> Answer:
    asked: wire.Get = call.body
    key = told.key_of(asked)
    if asked.version is None and asked.ts_us is None:
        return Answer(told.found(await ask(call, find_kv, lambda kv: kv.entry(key))))
    at = {"version": asked.version, "ts": asked.ts_us}
    return Answer(told.found(await ask(call, find_kv, lambda kv: kv.entry_at(key, **at))))


async def mget(call: Call) -> Answer:
    asked: wire.Keys = call.body
    _check_count(call, "keys", len(asked.keys))
    keys = [told.key_of(each) for each in asked.keys]
    values = await ask(call, find_kv, lambda kv: kv.mget(keys))
    return Answer(wire.Values(values=[told.value(each) for each in values]))


async def put(call: Call) -> Answer:
    asked: wire.Put = call.body
    key, value = told.key_of(asked), told.value_of(asked)
    ttl = told.ttl_s(asked.ttl_ms)
    nx, xx, version = asked.nx, asked.xx, asked.version
    done = await write(
        call, find_kv, lambda kv: kv.put(key, value, ttl=ttl, nx=nx, xx=xx, version=version)
    )
    return Answer(wire.Versioned(version=done))


async def put_many(call: Call) -> Answer:
    asked: wire.PutMany = call.body
    _check_count(call, "values", len(asked.values))
    values: dict[Key, bytes] = {told.key_of(e): told.value_of(e) for e in asked.values}
    if len(values) < len(asked.values):
        raise Invalid("a key is there twice: put it once")
    ttl = told.ttl_s(asked.ttl_ms)
    done = await write(call, find_kv, lambda kv: kv.put_many(values, ttl=ttl))
    return Answer(wire.VersionsDone(versions=done))


async def delete(call: Call) -> Answer:
    asked: wire.Delete = call.body
    key = told.key_of(asked)
    done = await ask(call, find_kv, lambda kv: kv.delete(key, version=asked.version))
    return Answer(wire.Deleted(deleted=done))


async def batch(call: Call) -> Answer:
    asked: wire.Batch = call.body
    _check_count(call, "operations", len(asked.operations))
    operations = [told.operation(each) for each in asked.operations]
    if any(each.delete for each in asked.operations):
        call.allow("delete", call.path["topic"])
    done = await write(call, find_kv, lambda kv: kv.batch(operations))
    return Answer(wire.VersionsDone(versions=done))


async def commit(call: Call) -> Answer:
    asked: wire.Commit = call.body
    _check_count(call, "keys", len(asked.seen) + len(asked.writes))
    seen = told.versions_seen(asked.seen)
    now_us = call.parts.clock.now_us()
    writes: dict[Key, Write] = {told.key_of(e): told.write(e, now_us) for e in asked.writes}
    if any(write.value is None for write in writes.values()):
        call.allow("delete", call.path["topic"])
    done = await write(call, find_kv, lambda kv: kv.commit(seen, writes))
    return Answer(wire.Versioned(version=done))


async def incr(call: Call) -> Answer:
    asked: wire.Incr = call.body
    key = told.key_of(asked)
    return Answer(
        wire.Number(number=await write(call, find_kv, lambda kv: kv.incr(key, asked.delta)))
    )


async def touch(call: Call) -> Answer:
    asked: wire.Touch = call.body
    key = told.key_of(asked)
    done = await ask(call, find_kv, lambda kv: kv.touch(key, asked.ttl_ms / 1000))
    return Answer(wire.Versioned(version=done))


async def persist(call: Call) -> Answer:
    key = told.key_of(call.body)
    return Answer(wire.Versioned(version=await ask(call, find_kv, lambda kv: kv.persist(key))))


async def json_get(call: Call) -> Answer:
    asked: wire.JsonPlace = call.body
    key, nothing = told.key_of(asked), object()
    found = await ask(call, find_kv, lambda kv: kv.json_get(key, asked.path, nothing))
    if found is nothing:
        return Answer(wire.JsonFound(found=False))
    return Answer(wire.JsonFound(found=True, value=msgspec.Raw(msgspec.json.encode(found))))


async def json_set(call: Call) -> Answer:
    asked: wire.JsonSet = call.body
    key, value = told.key_of(asked), _JSON_PLACE.decode(asked.value)
    done = await write(call, find_kv, lambda kv: kv.json_set(key, asked.path, value))
    return Answer(wire.Versioned(version=done))


async def json_delete(call: Call) -> Answer:
    asked: wire.JsonPlace = call.body
    key = told.key_of(asked)
    done = await ask(call, find_kv, lambda kv: kv.json_delete(key, asked.path))
    return Answer(wire.Deleted(deleted=done))


async def history(call: Call) -> Answer:
    key = told.key_of(call.body)
    found = await ask(call, find_kv, lambda kv: kv.history(key))
    return Answer(wire.History(versions=[told.old_version(each) for each in found]))


async def scan(call: Call) -> Answer:
    asked: wire.Scan = call.body
    limit = max(1, min(asked.limit, call.parts.settings.limits.page_records_max))
    prefix = found_key("prefix", asked.prefix, asked.prefix_base64)
    first = found_key("first", asked.first, asked.first_base64)
    behind = found_key("next", asked.next, asked.next_base64)
    after = found_key("after", asked.after, asked.after_base64)

    def work(kv: Kv) -> wire.Scanned:
        found = kv.scan(
            prefix, first=first, next=behind, after=after, limit=limit, reverse=asked.reverse
        )
        entries = [told.entry(each, keys_only=asked.keys_only) for each in found]
        return wire.Scanned(entries=entries, more=len(entries) == limit)

    return Answer(await ask_slowly(call, find_kv, work))


async def head(call: Call) -> Answer:
    found = await ask(call, find_kv, lambda kv: kv.head)
    return Answer(wire.Head(topic=call.path["topic"], head=found))


async def compact(call: Call) -> Answer:
    done = await ask_slowly(call, find_kv, lambda kv: kv.compact())
    return Answer(
        wire.Compacted(expired=done.expired, forgotten=done.forgotten, released=done.released)
    )


async def get_value(call: Call) -> Response:
    """The value itself, as it is stored."""
    asked: wire.ValueQuery = call.query
    key = given_key("key", asked.key or UNSET, asked.key_base64 or UNSET)
    found = await ask(call, find_kv, lambda kv: kv.entry(key))
    if found is None:
        raise NotFound("there is no such key")
    headers = {"strandline-version": str(found.version), "content-type": OCTETS}
    return Response(found.value, headers=headers)


async def put_value(call: Call) -> Answer:
    asked: wire.ValueQuery = call.query
    key = given_key("key", asked.key or UNSET, asked.key_base64 or UNSET)
    value, ttl = call.raw, told.ttl_s(asked.ttl_ms)
    nx, xx, version = asked.nx, asked.xx, asked.version
    done = await write(
        call, find_kv, lambda kv: kv.put(key, value, ttl=ttl, nx=nx, xx=xx, version=version)
    )
    return Answer(wire.Versioned(version=done))


def _check_count(call: Call, what: str, count: int) -> None:
    count_max = call.parts.settings.limits.batch_records_max
    if count > count_max:
        raise Refused(
            400, "batch_too_large", f"give at most {count_max} {what}", detail={"max": count_max}
        )


_READ = (Need("read", "topic"),)
_WRITE = (Need("write", "topic"),)
_route = partial(Route, errors=("topic_not_found", "not_found", "conflict", "batch_too_large"))
_read = partial(_route, method="POST", needs=_READ)
_write = partial(_route, method="POST", needs=_WRITE)

ROUTES: tuple[Route, ...] = (
    _read(
        path="/v0/kv/{topic}/get",
        handler=get,
        summary="A key with its value, version and end; as it is, or as it was.",
        body=wire.Get,
        answers={200: wire.Found},
    ),
    _read(
        path="/v0/kv/{topic}/mget",
        handler=mget,
        summary="The values of many keys.",
        body=wire.Keys,
        answers={200: wire.Values},
    ),
    _read(
        path="/v0/kv/{topic}/history",
        handler=history,
        summary="The versions of a key, newest first.",
        body=wire.ByKey,
        answers={200: wire.History},
    ),
    _read(
        path="/v0/kv/{topic}/scan",
        handler=scan,
        summary="Entries in order of their keys, a page at a time.",
        body=wire.Scan,
        answers={200: wire.Scanned},
    ),
    _read(
        path="/v0/kv/{topic}/json_get",
        handler=json_get,
        summary="What is at a place of a JSON document.",
        body=wire.JsonPlace,
        answers={200: wire.JsonFound},
    ),
    _route(
        method="GET",
        path="/v0/kv/{topic}",
        handler=head,
        needs=_READ,
        summary="The version of the newest change.",
        answers={200: wire.Head},
    ),
    _route(
        method="GET",
        path="/v0/kv/{topic}/value",
        handler=get_value,
        needs=_READ,
        summary="The value of a key as it is stored, without JSON around it.",
        query=wire.ValueQuery,
        answers={200: None},
        gives=(OCTETS,),
    ),
    _route(
        method="PUT",
        path="/v0/kv/{topic}/value",
        handler=put_value,
        needs=_WRITE,
        summary="Give a key the body as its value, whatever bytes it is.",
        query=wire.ValueQuery,
        body=bytes,
        takes=(OCTETS,),
        answers={200: wire.Versioned},
    ),
    _write(
        path="/v0/kv/{topic}/put",
        handler=put,
        summary="Give a key a value, for a time or for ever, if conditions hold.",
        body=wire.Put,
        answers={200: wire.Versioned},
    ),
    _write(
        path="/v0/kv/{topic}/put_many",
        handler=put_many,
        summary="Give keys their values, all or none.",
        body=wire.PutMany,
        answers={200: wire.VersionsDone},
    ),
    _route(
        method="POST",
        path="/v0/kv/{topic}/delete",
        handler=delete,
        needs=(Need("delete", "topic"),),
        summary="Delete a key, if it has this version or none is named.",
        body=wire.Delete,
        answers={200: wire.Deleted},
    ),
    _write(
        path="/v0/kv/{topic}/batch",
        handler=batch,
        summary="Puts and deletes with conditions, all or none.",
        body=wire.Batch,
        answers={200: wire.VersionsDone},
    ),
    _route(
        method="POST",
        path="/v0/kv/{topic}/commit",
        handler=commit,
        needs=(*_READ, *_WRITE),
        summary="A transaction: write, if everything that was read is as it was seen.",
        body=wire.Commit,
        answers={200: wire.Versioned},
    ),
    _write(
        path="/v0/kv/{topic}/incr",
        handler=incr,
        summary="Add to a counter; it begins at 0.",
        body=wire.Incr,
        answers={200: wire.Number},
    ),
    _write(
        path="/v0/kv/{topic}/touch",
        handler=touch,
        summary="Let a key end in a while.",
        body=wire.Touch,
        answers={200: wire.Versioned},
    ),
    _write(
        path="/v0/kv/{topic}/persist",
        handler=persist,
        summary="Let a key stay for ever.",
        body=wire.ByKey,
        answers={200: wire.Versioned},
    ),
    _write(
        path="/v0/kv/{topic}/json_set",
        handler=json_set,
        summary="Put something at a place of a JSON document.",
        body=wire.JsonSet,
        answers={200: wire.Versioned},
    ),
    _write(
        path="/v0/kv/{topic}/json_delete",
        handler=json_delete,
        summary="Take a place out of a JSON document.",
        body=wire.JsonPlace,
        answers={200: wire.Deleted},
    ),
    _route(
        method="POST",
        path="/v0/kv/{topic}/compact",
        handler=compact,
        needs=(Need("config", "topic"),),
        summary="Let records go that nobody can see any more.",
        answers={200: wire.Compacted},
    ),
)
