"""Topics over HTTP: made, changed, told, listed and deleted, as the contract says."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from strandline.config.settings import TopicConfig
from strandline.server.settings import RequestLimits, ServerSettings
from tests.server.running import running
from tests.server.topics_face import Face

DEFAULTS = {
    "type": "log",
    "ttl_ms": 0,
    "cap_records": 0,
    "cap_bytes": 0,
    "discard": "old",
    "durable": False,
    "durability": "disk",
    "priority": None,
    "auto_priority": True,
    "auto_create": True,
    "idempotency_window_ms": 120_000,
    "dedupe_node": True,
    "lease_ms": 30_000,
    "claim_jitter_ms": 0,
    "max_deliveries": 0,
    "dead_letter": None,
    "leases_durable": False,
    "schema": {},
    "views": {},
}


@pytest.fixture(scope="module")
def face(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Face]:
    with running(tmp_path_factory.mktemp("topics")) as server, Face(server) as made:
        yield made


def test_a_new_topic_is_201_and_echoes_its_whole_configuration(face):
    answer = face.ask("PUT", "/v0/topics/new", {})

    assert answer.status_code == 201
    told = answer.json()
    assert (told["topic"], told["created"], told["config"]) == ("new", True, DEFAULTS)
    assert told["performance"]["server_total_ms"] >= 0


def test_the_same_topic_again_is_200_and_changes_nothing(face):
    face.put("again", ttl_ms=5000)

    answer = face.ask("PUT", "/v0/topics/again", {})

    assert answer.status_code == 200
    assert answer.json()["created"] is False
    assert answer.json()["config"]["ttl_ms"] == 5000


def test_options_of_a_topic_can_be_changed_and_stay_after_a_restart(tmp_path):
    said = {"priority": 7, "auto_priority": False, "auto_create": False, "cap_records": 9}
    with running(tmp_path) as server, Face(server) as face:
        face.put("kept")
        face.put("kept", **said)

    with running(tmp_path) as server, Face(server) as face:
        config = face.state("kept")["config"]

    assert {name: config[name] for name in said} == said


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"durable": True}, ("fsync", True)),
        ({"durable": False}, ("disk", False)),
        ({"durability": "memory"}, ("memory", False)),
        ({"durability": "disk", "durable": True}, ("disk", False)),
        ({"durability": "fsync", "durable": False}, ("fsync", True)),
    ],
)
def test_durable_is_another_word_and_durability_wins(face, said, told):
    name = f"durable-{'-'.join(map(str, said.values()))}"

    config = face.put(name, **said)["config"]

    assert (config["durability"], config["durable"]) == told


@pytest.mark.parametrize(("said", "kept"), [(5000, 1000), (-5000, -1000), (12, 12)])
def test_a_priority_is_brought_into_its_range(face, said, kept):
    assert face.put(f"priority-{kept}", priority=said)["config"]["priority"] == kept


def test_a_queue_is_a_topic_with_the_options_of_queues(face):
    config = face.put("jobs", type="queue", lease_ms=5, claim_jitter_ms=9999, max_deliveries=3)[
        "config"
    ]

    assert (config["type"], config["leases_durable"]) == ("queue", True)
    assert (config["lease_ms"], config["claim_jitter_ms"]) == (100, 5000)
    assert (config["max_deliveries"], config["dead_letter"]) == (3, "jobs:dead")
    assert face.state("jobs")["queue"] == {"ready": 0, "in_flight": 0, "dead_lettered": 0}


def test_options_of_a_queue_can_be_changed(face):
    face.put("altered-jobs", type="queue")

    changed = face.put("altered-jobs", lease_ms=2000, max_deliveries=4)["config"]

    assert (changed["lease_ms"], changed["max_deliveries"]) == (2000, 4)


@pytest.mark.parametrize(("made", "asked"), [("log", "queue"), ("queue", "log")])
def test_a_type_never_changes(face, made, asked):
    face.put(f"typed-{made}", type=made)

    refused = face.refused("PUT", f"/v0/topics/typed-{made}", {"type": asked})

    assert refused[:2] == (409, "topic_exists_incompatible")


def test_a_queue_cannot_be_its_own_dead_letter(face):
    body = {"type": "queue", "dead_letter": "loop"}

    assert face.refused("PUT", "/v0/topics/loop", body)[:2] == (400, "invalid_request")


def test_dead_letters_go_to_the_topic_that_was_named(face):
    body = {"type": "queue", "dead_letter": "failed", "max_deliveries": 1, "lease_ms": 100}
    made = face.put("letters", **body)["config"]
    face.append("letters", {"data": 1})
    claim = {"node": "w"}
    face.good("POST", "/v0/topics/letters/claim", claim)
    face.good("POST", "/v0/topics/letters/nack", {"node": "w", "seqs": [1]})
    face.good("POST", "/v0/topics/letters/claim", claim)

    again = face.put("letters", **body)
    changed = face.refused("PUT", "/v0/topics/letters", {"dead_letter": "elsewhere"})

    assert made["dead_letter"] == again["config"]["dead_letter"] == "failed"
    assert face.state("failed")["count"] == 1
    assert changed[:2] == (400, "invalid_request")


def test_who_may_not_write_to_a_topic_names_it_for_no_dead_letters(tmp_path):
    scopes = {"eu": "create,write,config:eu.*"}
    refused = []
    with (
        running(tmp_path, tokens=scopes) as server,
        Face(server, authorization=f"Bearer {server.tokens['eu']}") as face,
    ):
        made = face.put("eu.jobs", type="queue", dead_letter="eu.failed")
        for name in ("us.failed", "strandline.tokens"):
            options = {"type": "queue", "dead_letter": name}
            refused += [
                face.refused("PUT", "/v0/topics/eu.more", options)[0],
                face.refused("PATCH", "/v0/topics/eu.jobs", options)[0],
                face.refused(
                    "POST", "/v0/topics/eu.new", {"records": [{"data": 1}], "config": options}
                )[0],
                face.refused("PUT", "/v0/views/eu.seen/queue", {"options": {"dead_letter": name}})[
                    0
                ],
                face.refused(
                    "PUT", "/v0/topics/eu.raw", {"views": {"queue": {"dead_letter": name}}}
                )[0],
            ]

    assert made["created"]
    assert refused == [403] * 5 + [400] * 5


def test_a_log_refuses_the_options_of_queues_and_takes_their_defaults(face):
    assert face.put("plain", **{**DEFAULTS, "dead_letter": None})["created"]
    assert face.refused("PUT", "/v0/topics/plain", {"lease_ms": 5000})[:2] == (
        400,
        "invalid_request",
    )


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({"ttl_ms": -1}, "$.ttl_ms"),
        ({"ttl_ms": "soon"}, "$.ttl_ms"),
        ({"cap_records": 2**60}, "$.cap_records"),
        ({"durability": "mostly"}, "$.durability"),
        ({"discard": "new"}, "$.discard"),
        ({"type": "table"}, "$.type"),
    ],
)
def test_a_wrong_option_is_refused_with_its_place(face, body, place):
    status, code, detail = face.refused("PUT", "/v0/topics/wrong", body)

    assert (status, code, detail["at"]) == (400, "invalid_request", place)


def test_an_unknown_option_is_refused(face):
    assert face.refused("PUT", "/v0/topics/wrong", {"tll_ms": 5})[:2] == (400, "invalid_request")
    assert face.refused("GET", "/v0/topics/wrong")[:2] == (404, "topic_not_found")


@pytest.mark.parametrize("name", ["-a", ".a", "a" * 256, "a%20b", "a%2Fb", "%C3%A9"])
def test_a_bad_name_is_refused(face, name):
    assert face.refused("PUT", f"/v0/topics/{name}", {})[:2] == (400, "invalid_request")


def test_the_longest_name_is_taken(face):
    assert face.put("n" * 255)["topic"] == "n" * 255


@pytest.mark.parametrize(
    ("given", "there", "expected"),
    [
        ("absent", True, (409, "topic_exists_incompatible")),
        ("present", False, (404, "topic_not_found")),
        ("same", True, (400, "invalid_request")),
        ("never", True, (400, "invalid_request")),
    ],
)
def test_a_condition_on_what_is_there_is_kept(face, given, there, expected):
    name = f"conditional-{given}"
    if there:
        face.put(name, ttl_ms=1)

    refused = face.refused("PUT", f"/v0/topics/{name}?if={given}", {"ttl_ms": 2})

    assert refused[:2] == expected


def test_a_topic_that_is_the_same_passes(face):
    face.put("the-same", ttl_ms=1, priority=4)

    told = face.good("PUT", "/v0/topics/the-same?if=same", {"ttl_ms": 1, "priority": 4})

    assert told["created"] is False


def test_patch_changes_a_topic_and_makes_none(face):
    face.put("patched")

    told = face.good("PATCH", "/v0/topics/patched", {"cap_records": 3})

    assert told["config"]["cap_records"] == 3
    assert face.refused("PATCH", "/v0/topics/unpatched", {})[:2] == (404, "topic_not_found")


def test_the_state_of_a_topic(face):
    face.put("told")
    face.append("told", "a", "b")

    told = face.state("told")

    assert (told["topic"], told["type"]) == ("told", "log")
    assert (told["head_seq"], told["earliest_seq"], told["next_seq"]) == (2, 1, 3)
    assert (told["count"], told["bytes"]) == (2, 6)
    assert told["config"] == DEFAULTS
    assert told["last_write_ts"] == told["last_ts_us"] // 1000
    assert told["last_read_ts"] is None
    assert "queue" not in told
    settings = msgspec.convert(told["settings"], TopicConfig)
    assert settings == face.server.store.existing_topic("told").config


def test_asking_for_a_state_never_makes_a_topic(face):
    assert face.refused("GET", "/v0/topics/nowhere")[:2] == (404, "topic_not_found")
    assert "nowhere" not in face.server.store.topics()


def test_reading_counts_for_the_priority_and_asking_does_so_only_with_touch(face):
    face.put("watched", priority=100)

    untouched = face.state("watched")
    touched = face.good("GET", "/v0/topics/watched?touch=true")

    assert (untouched["effective_priority"], untouched["last_read_ts"]) == (100, None)
    assert 500 < touched["effective_priority"] <= 600
    assert touched["last_read_ts"] is not None


def test_a_diff_counts_as_reading(face):
    face.put("diffed")

    face.diff("diffed")

    assert face.state("diffed")["last_read_ts"] is not None


def test_topics_are_listed_in_pages_by_name(face):
    for name in ("list.c", "list.a", "list.b"):
        face.put(name)

    first = face.good("GET", "/v0/topics?prefix=list.&page_size=2")
    rest = face.good("GET", f"/v0/topics?prefix=list.&page_size=2&cursor={first['next_cursor']}")

    assert [line["topic"] for line in first["topics"]] == ["list.a", "list.b"]
    assert [line["topic"] for line in rest["topics"]] == ["list.c"]
    assert "next_cursor" not in rest
    assert set(rest["topics"][0]) == {
        "topic",
        "head_seq",
        "earliest_seq",
        "count",
        "bytes",
        "durable",
        "effective_priority",
    }


@pytest.mark.parametrize("query", ["cursor=!!!", "cursor=YQ==", "page_size=0", "page_size=x"])
def test_a_bad_cursor_or_page_size_is_refused(face, query):
    assert face.refused("GET", f"/v0/topics?{query}")[:2] == (400, "invalid_request")


def test_a_page_has_at_most_a_thousand_topics(face):
    for number in range(1001):
        face.server.store.topic(f"many.{number}")

    page = face.good("GET", "/v0/topics?prefix=many.&page_size=5000")

    assert len(page["topics"]) == 1000
    assert page["next_cursor"]


def test_topics_of_the_server_itself_are_listed_only_by_prefix(face):
    names = {line["topic"] for line in face.good("GET", "/v0/topics?page_size=1000")["topics"]}
    own = face.good("GET", "/v0/topics?prefix=strandline.")["topics"]

    assert not any(name.startswith("strandline.") for name in names)
    assert own


def test_a_deleted_topic_is_gone_with_its_records(face):
    face.append("doomed", 1)

    told = face.good("DELETE", "/v0/topics/doomed")

    assert (told["topic"], told["deleted"], told["routers_removed"]) == ("doomed", True, [])
    assert face.refused("GET", "/v0/topics/doomed")[:2] == (404, "topic_not_found")


def test_deleting_what_is_not_there_is_told_and_no_error(face):
    assert face.good("DELETE", "/v0/topics/never")["deleted"] is False


def test_a_topic_with_records_survives_if_empty(face):
    face.append("occupied", 1)

    refused = face.refused("DELETE", "/v0/topics/occupied?if_empty=true")
    face.delete("occupied", before_seq=2)
    deleted = face.good("DELETE", "/v0/topics/occupied?if_empty=true")

    assert refused[:2] == (409, "topic_not_empty")
    assert deleted["deleted"] is True


def test_routers_go_with_their_topic_and_are_named(face):
    face.put("source")
    face.put("target")
    face.good("PUT", "/v0/routers/there", {"source": "source", "dest": "target"})

    told = face.good("DELETE", "/v0/topics/target")

    assert told["routers_removed"] == ["there"]
    assert face.refused("GET", "/v0/routers/there")[:2] == (404, "router_not_found")


def test_a_topic_made_again_begins_anew_behind_the_same_name(face):
    face.append("reborn", 1, 2, 3)
    before = face.state("reborn")
    face.good("DELETE", "/v0/topics/reborn")

    after = face.append("reborn", 4)

    assert (after["first_seq"], after["created"]) == (1, True)
    assert face.state("reborn")["identity"] != before["identity"]


def test_a_topic_of_a_view_cannot_be_written_to(face):
    face.put("owned", type="queue")
    body = {"records": [{"data": 1}]}

    assert face.refused("POST", "/v0/topics/owned:leases", body)[:2] == (400, "invalid_request")


def test_nobody_gives_a_topic_to_a_view(face):
    face.put("free")
    face.put("views-of", type="queue")
    given = {"views": {"owner": "views-of"}}

    told = [face.refused(method, "/v0/topics/free", given)[:2] for method in ("PUT", "PATCH")]
    told.append(face.refused("PUT", "/v0/topics/mine", given)[:2])
    body = {"records": [{"data": 1}], "config": given}
    told.append(face.refused("POST", "/v0/topics/mine", body)[:2])

    assert told == [(400, "invalid_request")] * 4
    assert face.append("free", 1)["first_seq"] == 1
    assert face.ask("GET", "/v0/topics/mine").status_code == 404


def test_a_server_with_all_its_topics_makes_no_more(tmp_path):
    settings = ServerSettings(limits=RequestLimits(topics_max=1))

    with running(tmp_path, settings=settings) as server, Face(server) as face:
        own = server.store.topic_count()
        face.put("last")
        by_put = face.ask("PUT", "/v0/topics/too-many", {})
        by_append = face.refused("POST", "/v0/topics/too-many", {"records": [{"data": 1}]})

    assert own > 0  # topics of the server itself, which do not count
    assert by_put.status_code == 429
    assert int(by_put.headers["retry-after"]) >= 1
    assert by_put.json()["error"]["detail"] == {"limit": "topics_max", "max": 1}
    assert by_append[:2] == (429, "throttled")
