"""`/metrics` counts what it says, under vLLM's names."""

from __future__ import annotations

from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from testkit.http_server import Served


def read(served: Served) -> dict[str, float]:
    page = served.http.get("/metrics").text
    return {
        sample.name.removeprefix("localpaged:")
        + "".join(f" {v}" for k, v in sample.labels.items() if k not in ("model_name", "le")): (
            sample.value
        )
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if "_bucket" not in sample.name
    }


def difference(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    return {
        name: value - before.get(name, 0.0)
        for name, value in after.items()
        if value != before.get(name, 0.0)
    }


def test_a_request_is_counted_once(tiny_served: Any):
    served, _ = tiny_served
    before = read(served)

    answer = served.chat("count this", max_tokens=10, ignore_eos=True).json()
    again = served.chat("count this", max_tokens=10, ignore_eos=True).json()

    counted = difference(before, read(served))
    usages = [answer["usage"], again["usage"]]
    prompt = sum(usage["prompt_tokens"] for usage in usages)
    cached = sum(usage["prompt_tokens_details"]["cached_tokens"] for usage in usages)
    assert counted["prompt_tokens_total"] == counted["prefix_cache_queries_total"] == prompt
    assert counted["prefix_cache_hits_total"] == cached > 0
    assert counted["generation_tokens_total"] == 20
    assert counted["request_success_total length"] == 2
    assert counted["time_to_first_token_seconds_count"] == 2
    assert counted["e2e_request_latency_seconds_count"] == 2
    assert counted["inter_token_latency_seconds_count"] <= 18
    assert counted["time_to_first_token_seconds_sum"] <= counted["e2e_request_latency_seconds_sum"]
    assert counted["http_responses_total 200"] == 3, "the first look at the page included"


def test_what_is_refused_is_counted_as_an_error(tiny_served: Any):
    served, _ = tiny_served
    before = read(served)

    served.chat(regex="(")
    served.chat(temperature=-1)

    counted = difference(before, read(served))
    assert counted["request_success_total error"] == 1, "the other one never was a request"
    assert counted["http_responses_total 400"] == 2


def test_gauges_are_there_when_nothing_runs(tiny_served: Any):
    served, _ = tiny_served
    now = read(served)

    for name in ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc"):
        assert now[name] == 0.0
    assert now["num_preemptions_total"] == 0.0
