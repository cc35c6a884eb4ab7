"""Metrics tell what the server does, in listed names; the dashboard asks for those only."""

from __future__ import annotations

import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

from strandline.cli.program import make_app
from strandline.config.pipeline_config import DeclaredPipeline
from strandline.config.settings import PipelineSettings, Settings
from strandline.server.grafana_dashboard import PANELS, dashboard
from strandline.server.routes import prometheus
from strandline.server.routes.prometheus import FAMILIES, MetricSample, as_text
from strandline.server.settings import ServerSettings
from tests.server.running import running
from tests.server.topics_face import Face

NAMES = re.compile(r"strandline_\w+")
NIGHTLY = DeclaredPipeline(name="nightly", pipeline="scrub", at="30 3 * * *")
PER_TOPIC = ServerSettings(
    metrics_per_topic=True, store=Settings(pipelines=PipelineSettings(declared=(NIGHTLY,)))
)


def test_prometheus_can_read_what_is_told(tmp_path):
    with running(tmp_path) as server, Face(server) as face:
        face.append("a", 1, 2, 3)
        answer = face.ask("GET", "/v0/metrics")

    numbers = _numbers(answer.text)
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert numbers["strandline_records_appended_total", ()] == 3
    assert numbers["strandline_appends_total", ()] == 1
    assert numbers["strandline_ready", ()] == 1
    assert numbers["strandline_store_health", (("status", "green"),)] == 1
    assert numbers["strandline_topics_by_class", (("class", "disk"),)] >= 1


def test_numbers_follow_what_is_done(tmp_path):
    with running(tmp_path) as server, Face(server) as face:
        before = face.good("GET", "/v0/metrics", headers={"accept": "application/json"})
        face.put("jobs", type="queue")
        face.put("safe", durable=True)
        for number in range(5):
            face.append("safe", number)
        face.diff("safe")
        face.ask("GET", "/v0/nowhere")
        after = face.good("GET", "/v0/metrics", headers={"accept": "application/json"})

    assert after["strandline_topics"] - before["strandline_topics"] >= 2
    assert after["strandline_queue_topics"] == 1
    assert after["strandline_records_read_total"] == 5
    assert {"status": "404", "value": 1} in after["strandline_http_requests_total"]
    (syncs,) = after["strandline_wal_fsyncs_total"]
    assert syncs["value"] >= 5
    (count,) = after["strandline_wal_fsync_latency_us_count"]
    assert count["value"] >= 5
    (frames,) = after["strandline_wal_frames_total"]
    assert frames["value"] >= before["strandline_wal_frames_total"][0]["value"] + 5
    (most,) = after["strandline_wal_queue_depth_peak"]
    assert most["value"] >= 1
    (written,) = after["strandline_wal_bytes_written_total"]
    assert written["value"] > before["strandline_wal_bytes_written_total"][0]["value"]


def test_a_histogram_adds_up(tmp_path):
    with running(tmp_path) as server, Face(server) as face:
        face.append("a", 1, config={"durable": True})
        numbers = _numbers(face.ask("GET", "/v0/metrics").text)

    buckets = [
        (float(dict(labels)["le"]), value)
        for (name, labels), value in numbers.items()
        if name == "strandline_wal_fsync_latency_us_bucket"
    ]
    values = [value for _, value in sorted(buckets)]
    assert values == sorted(values)
    assert values[-1] == numbers["strandline_wal_fsync_latency_us_count", (("shard", "0"),)]


def test_how_long_syncs_took_is_told_in_microseconds(tmp_path):
    with running(tmp_path) as server, Face(server) as face:
        face.append("a", 1, config={"durable": True})
        (before,) = server.store.log_statistics()
        told = face.good("GET", "/v0/metrics", headers={"accept": "application/json"})
        (after,) = server.store.log_statistics()

    (total,) = told["strandline_wal_fsync_latency_us_sum"]
    assert 0 < before.sync_total_us <= total["value"] <= after.sync_total_us
    assert before.sync_total_us > sum(before.sync_counts)  # no disk syncs in a microsecond


def test_topics_have_no_lines_of_their_own_unless_asked_for(tmp_path):
    with running(tmp_path) as server, Face(server) as face:
        face.put("secret-name")
        plain = face.ask("GET", "/v0/metrics").text
    with running(tmp_path, settings=PER_TOPIC) as server, Face(server) as face:
        each = face.ask("GET", "/v0/metrics").text

    assert "secret-name" not in plain
    assert 'strandline_topic_head_seq{topic="secret-name"} 0' in each


def test_lines_of_topics_are_bounded_and_that_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(prometheus, "TOPICS_MAX", 3)
    with running(tmp_path, settings=PER_TOPIC) as server, Face(server) as face:
        for number in range(5):
            face.put(f"t{number}")
        told = face.ask("GET", "/v0/metrics").text

    assert told.count("strandline_topic_head_seq{") == 3
    assert "strandline_topic_metrics_truncated 1" in told


def test_labels_are_escaped():
    told = as_text([MetricSample("strandline_topics", 1, {"topic": 'a"b\\c\nd'})])

    assert 'topic="a\\"b\\\\c\\nd"' in told


def test_all_that_is_told_is_listed_and_all_that_is_listed_is_told(tmp_path):
    with running(tmp_path, settings=PER_TOPIC) as server, Face(server) as face:
        face.put("jobs", type="queue")
        told = face.ask("GET", "/v0/metrics").text

    assert set(re.findall(r"^# TYPE (\w+)", told, re.MULTILINE)) == set(FAMILIES)


def test_metrics_need_their_right(tmp_path):
    tokens = {"scraper": "metrics", "reader": "read"}
    with running(tmp_path, tokens=tokens) as server:
        statuses = {}
        for name in tokens:
            with Face(server, authorization=f"Bearer {server.tokens[name]}") as face:
                statuses[name] = face.ask("GET", "/v0/metrics").status_code
        with Face(server) as nobody:
            statuses["nobody"] = nobody.ask("GET", "/v0/metrics").status_code

    assert statuses == {"scraper": 200, "reader": 403, "nobody": 401}


def test_the_dashboard_asks_only_for_metrics_that_exist():
    asked = {name for panel in PANELS for ask, _ in panel.queries for name in NAMES.findall(ask)}

    plain = {re.sub(r"_(bucket|sum|count)$", "", name) for name in asked}
    histograms = {name for name, family in FAMILIES.items() if family.kind == "histogram"}
    assert {name for name in asked if name not in FAMILIES} <= {
        f"{name}_bucket" for name in histograms
    }
    assert plain <= set(FAMILIES)


def test_the_command_prints_the_dashboard(capsys):
    make_app()(["dashboard", "--title", "Mine"], result_action="return_value")

    printed = capsys.readouterr().out
    assert '"title": "Mine"' in printed
    assert len(dashboard()["panels"]) == len(PANELS)


@pytest.mark.parametrize("path", ["/v0/health", "/healthz", "/v0/ready", "/readyz"])
def test_probes_are_open_to_all(tmp_path, path):
    with running(tmp_path, tokens={"root": "all"}) as server, Face(server) as face:
        told = face.good("GET", path)

    assert told["status"] in ("ok", "ready")
    assert "store_id" not in told


def test_who_is_known_is_told_which_store_it_is(tmp_path):
    with running(tmp_path) as server, Face(server) as face:
        told = face.good("GET", "/v0/health")
        store = face.good("GET", "/v0/store")

        assert told["store_id"] == server.store.id
        assert (store["status"], store["store_id"]) == ("green", server.store.id)


def _numbers(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
