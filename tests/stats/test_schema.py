"""Snapshots cross versions of the program as JSON: what fits is kept, what does not is refused."""

import json
from dataclasses import fields, replace

import pytest

from localpaged.errors import StatsError
from localpaged.stats.schema import (
    SCHEMA_MAJOR,
    BlockMap,
    Blocks,
    ChatStats,
    Latency,
    Memory,
    ModelHistory,
    ModelStats,
    Program,
    Snapshot,
    Tree,
    TreeBranch,
    from_json,
    to_json,
)

HOSTILE = "\x1b]52;c;SGVsbG8=\x07[sys:LOCK=SAFE…] \u202e {}\u200b\"'\\"


def snapshot():
    blocks = Blocks(
        total=8, active=3, pinned=1, cached=2, free=2, max=16,
        tokens_per_block=16, bytes_per_block=1_000,
    )  # fmt: skip
    model = ModelStats(
        name=HOSTILE,
        device="cpu",
        weights_bytes=None,
        blocks=blocks,
        ttft=Latency(2, 1.5, 2.5, 2.5),
        history=ModelHistory(fill=(None, 0.5, 1.0)),
        chats=(ChatStats("c1", HOSTILE, "decode", 1, None, 20, 19, 1, 2),),
        tree=Tree(1, 2, 2, 0, (TreeBranch(7, None, 0, 2, 1, 1, 1, "c1"),)),
        block_map=BlockMap(8, 1, "aaapcc..", "11120000", "00000000", "AAAA....", ("c1",)),
    )
    return Snapshot(Program("0.1.0", 42, "chat", 1.0), 2.0, Memory(1, 2, 3), (model,))


def test_a_snapshot_survives_its_way_through_json():
    assert from_json(json.loads(json.dumps(to_json(snapshot())))) == snapshot()


def test_what_a_newer_minor_version_tells_besides_is_passed_over():
    data = to_json(snapshot())
    data["schema_version"] = f"{SCHEMA_MAJOR}.99"
    data["news"] = {"a": [1]}
    data["models"][0]["blocks"]["borrowed"] = 3
    assert from_json(data) == replace(snapshot(), schema_version=f"{SCHEMA_MAJOR}.99")


def test_what_an_older_minor_version_does_not_tell_has_its_default():
    data = to_json(snapshot())
    del data["models"][0]["host"], data["loading"]
    assert from_json(data) == snapshot()


def test_another_major_version_is_refused_with_both_versions():
    data = to_json(snapshot())
    data["schema_version"] = f"{SCHEMA_MAJOR + 1}.0"
    with pytest.raises(StatsError, match=f"version {SCHEMA_MAJOR + 1}.*version {SCHEMA_MAJOR}"):
        from_json(data)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: [],
        lambda data: {},
        lambda data: {**data, "schema_version": 1},
        lambda data: {**data, "schema_version": "²"},
        lambda data: {**data, "models": None},
        lambda data: {**data, "models": [1]},
        lambda data: {**data, "taken_at": "now"},
        lambda data: {**data, "taken_at": 10**400},
        lambda data: {**data, "program": {**data["program"], "pid": True}},
        lambda data: {**data, "program": {**data["program"], "pid": 1.5}},
        lambda data: {**data, "rss_bytes_history": [1, "x"]},
    ],
)
def test_what_does_not_fit_is_refused_with_a_sentence(spoil):
    with pytest.raises(StatsError, match="not stats of localpaged"):
        from_json(spoil(to_json(snapshot())))


def test_whole_numbers_may_stand_where_fractions_are_expected():
    data = to_json(snapshot())
    data["taken_at"] = 2
    assert from_json(data).taken_at == 2.0


def test_a_models_history_has_a_series_for_every_field():
    assert all(getattr(ModelHistory(), field.name) == () for field in fields(ModelHistory))


def test_numbers_that_follow_from_others_are_told_beside_them():
    (model,) = to_json(snapshot())["models"]
    assert model["kv_bytes"] == model["blocks"]["total_bytes"] == 8_000
    assert model["hit_bytes"] == 0
    assert model["slots"]["fill"] is None and model["totals"]["hit_ratio"] is None
