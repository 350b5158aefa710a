"""Everything is looked at whatever is broken, what is wrong comes with advice, nothing changes."""

from __future__ import annotations

import logging
import os
import socket
import stat
from dataclasses import replace

import psutil
import pytest

from localpaged import paths
from localpaged.doctor import places
from localpaged.doctor.examine import Seams, examine
from localpaged.doctor.fact import Verdict, gathered
from localpaged.doctor.nvidia import Nvidia
from localpaged.doctor.packages import package_facts
from localpaged.doctor.terminal import Streams
from localpaged.models.catalogue import DEFAULT_MODEL
from testkit.gguf_files import save_tiny_gguf
from testkit.machines import CPU_BUILD, CUDA_BUILD, GIB, GPU

HOSTILE = "\x1b]0;x\x07 [b]\u202e"


def problems(facts):
    return {name for name, fact in facts.items() if fact.verdict is Verdict.PROBLEM}


@pytest.fixture
def model(home, tmp_path):
    """The default model's name leads to a tiny model that is listed with its path."""
    path = save_tiny_gguf(tmp_path, "llama")
    folder = paths.ensure_private_dir(paths.models_dir())
    entry = folder / f"{DEFAULT_MODEL}.json"
    entry.write_text(f'{{"path": "{path}", "origin": "here"}}')
    return path


def write_config(text):
    paths.ensure_private_dir(paths.config_dir())
    paths.config_file().write_text(text)


def tree(folder):
    return {
        str(path): (path.lstat().st_mode, path.lstat().st_size, path.lstat().st_mtime_ns)
        for path in folder.rglob("*")
    }


def test_a_machine_with_a_model_has_no_problem_and_is_not_changed(home, model, look):
    before = tree(home)
    facts = look()
    assert problems(facts) == set()
    assert facts["model"].value.endswith("all its tensors are there")
    numbers = facts["memory plan"].numbers
    parts = ("weight_bytes", "kv_bytes", "working_bytes")
    assert numbers["total_bytes"] == sum(numbers[part] for part in parts)
    assert tree(home) == before


def test_an_empty_home_stays_empty_and_tells_how_to_get_the_model(home, look):
    facts = look()
    assert problems(facts) == {"model"}
    assert facts["model"].advice == "Fetch it: `localpaged models pull`."
    assert list(home.iterdir()) == []


def test_a_gpu_with_a_build_for_processors_goes_through_to_the_report(model, look):
    facts = look(nvidia=GPU)
    assert problems(facts) == set()
    assert facts["torch and GPU"].verdict is Verdict.NOTE
    facts = look(nvidia=GPU, environment={"LOCALPAGED_DEVICE": "cuda"})
    assert problems(facts) == {"torch and GPU", "Triton", "computes on"}
    assert problems(look(nvidia=GPU, build=CUDA_BUILD)) == set()


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("[engine]\ncontext = 'x'", "engine.context must be a whole number"),
        ("[engine", "not TOML"),
        ("[keymap]\nquit = 'ctrl+i'", "ctrl+i"),
        ("[enginee]\n", "did you mean engine"),
    ],
)
def test_a_broken_config_is_told_with_the_file_and_the_rest_is_looked_at(model, look, text, part):
    write_config(text)
    facts = look()
    assert problems(facts) == {"config file"}
    assert part in facts["config file"].value
    assert str(paths.config_file()) in facts["config file"].value
    assert "memory plan" in facts


def test_variables_that_are_wrong_or_mean_nothing_are_told(model, look):
    environment = {
        "LOCALPAGED_CONTEXT": "many",
        "LOCALPAGED_KV_MEMORY": "1 acre",
        "LOCALPAGED_THREADS": "100000",
        "LOCALPAGED_DTYPE": "",
        "LOCALPAGED_MODLE": "x",
        "OMP_NUM_THREADS": "none",
        "GOMP_SPINCOUNT": "300000",
        "OMP_WAIT_POLICY": "ACTIVE",
    }
    facts = look(environment=environment)
    wrong = {"LOCALPAGED_CONTEXT", "LOCALPAGED_KV_MEMORY", "LOCALPAGED_THREADS"}
    assert problems(facts) == wrong
    assert facts["LOCALPAGED_MODLE"].advice == "Did you mean LOCALPAGED_MODEL?"
    for name in ("OMP_NUM_THREADS", "GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        assert facts[name].verdict is Verdict.NOTE
    assert facts["LOCALPAGED_DTYPE"].verdict is Verdict.OK


def test_the_config_file_and_variables_decide_what_is_planned(model, look):
    write_config("[engine]\ncontext = 64\nkv_dtype = 'int8'\n")
    assert look()["memory plan"].numbers["context_tokens"] == 64
    facts = look(environment={"LOCALPAGED_CONTEXT": "80", "LOCALPAGED_DTYPE": "float32"})
    assert facts["memory plan"].numbers["context_tokens"] == 80
    assert facts["number format"].numbers == {"weights": "float32", "kv": "int8"}


def test_a_model_that_is_cut_is_told(model, look):
    model.write_bytes(model.read_bytes()[:-100])
    facts = look()
    assert problems(facts) == {"model"}
    assert str(model) in facts["model"].value


def test_a_listed_model_whose_file_is_gone_is_told(model, look):
    (paths.models_dir() / "gone.json").write_text('{"path": "/nowhere/x.gguf", "origin": "x"}')
    (paths.models_dir() / "torn.json").write_text("{")
    facts = look()
    assert "is not there" in facts["model gone"].value
    # what would have gone to the log is told, and no log is made for it
    assert "torn.json" in facts["said meanwhile"].value
    assert not paths.log_file().exists()
    assert logging.getLogger().handlers


@pytest.mark.parametrize("change", ["size", "bytes"])
def test_the_packaged_model_is_known_to_the_byte(home, tmp_path, monkeypatch, look, change):
    from localpaged.models import catalogue

    path = save_tiny_gguf(paths.ensure_private_dir(paths.models_dir()), "llama")
    path = path.rename(path.with_name(f"{DEFAULT_MODEL}.gguf"))
    size = path.stat().st_size + (change == "size")
    known = replace(catalogue.PACKAGED_MODELS[DEFAULT_MODEL], member_bytes=size)
    monkeypatch.setitem(catalogue.PACKAGED_MODELS, DEFAULT_MODEL, known)
    fact = look()["model"]
    assert fact.verdict is Verdict.PROBLEM
    assert ("bytes are expected" if change == "size" else "damaged") in fact.value
    assert f"models pull {DEFAULT_MODEL}" in fact.advice


def test_torch_that_cannot_be_imported_hides_nothing_else(model, look):
    facts = look(build=ImportError("libcudart.so.13: cannot open shared object file"))
    assert problems(facts) == {"torch import"}
    assert "libcudart" in facts["torch import"].value
    assert facts["model"].verdict is Verdict.NOTE
    assert facts["history"].verdict is Verdict.OK


def test_a_probe_that_fails_is_a_fact_and_what_it_told_before_stays():
    def probe():
        yield from look_at_two()
        raise RuntimeError("boom")

    def look_at_two():
        from localpaged.doctor.fact import Fact

        yield Fact("one", "1")
        yield Fact("two", "2")

    facts = gathered("probe", probe)
    assert [fact.name for fact in facts] == ["one", "two", "probe"]
    assert (facts[-1].verdict, "boom" in facts[-1].value) == (Verdict.PROBLEM, True)


def test_every_seam_may_fail():
    def failing(what):
        def fail():
            raise OSError(5, f"{what} is broken")

        return fail

    report = examine(
        Seams(
            read_nvidia=failing("the driver"),
            read_torch=failing("torch"),
            read_streams=failing("the terminal"),
            environment={},
        )
    )
    told = {f.name: f.value for g in report.groups for f in g.facts}
    assert "torch is broken" in told["torch import"]
    assert "the driver is broken" in told["GPU"]
    assert "the terminal is broken" in told["terminal"]


def test_a_corrupt_history_is_one_problem(model, look):
    paths.database_file().write_bytes(b"no database" * 500)
    facts = look()
    assert problems(facts) == {"history"}
    assert "Move it away" in facts["history"].advice


def test_a_home_that_nobody_has_is_told_and_breaks_nothing(look, monkeypatch):
    monkeypatch.setenv(paths.HOME_VARIABLE, "~nobody-of-that-name/x")
    facts = look(environment=dict(os.environ))
    assert problems(facts) == {"config file"}
    assert "nobody-of-that-name" in facts["config file"].value
    assert facts["history"].value == "not known: see config file"
    assert facts["terminal"].verdict is Verdict.OK


def test_folders_that_are_files_or_open_to_others_are_told(home, model, look):
    paths.data_dir().chmod(0o755)
    (home / "cache").write_text("x")
    facts = look()
    assert facts["data folder"].advice.startswith("chmod 700")
    assert "has to be a folder" in facts["cache folder"].value
    assert "cache folder" in problems(facts)
    assert stat.S_IMODE(paths.data_dir().stat().st_mode) == 0o755


def test_little_room_is_told(model, look, monkeypatch):
    usage = type("Usage", (), {"free": 100 << 20, "total": GIB})
    monkeypatch.setattr(places.shutil, "disk_usage", lambda _: usage)
    assert "disk" in problems(look())
    usage.free = 400 << 20
    assert look()["disk"].verdict is Verdict.NOTE


def test_sockets_that_dead_programs_left_are_told_and_left(model, look):
    folder = paths.ensure_private_dir(paths.runtime_dir())
    stale, living = folder / "17.sock", folder / "18.sock"
    with socket.socket(socket.AF_UNIX) as gone, socket.socket(socket.AF_UNIX) as listener:
        gone.bind(os.path.relpath(stale))
        listener.bind(os.path.relpath(living))
        listener.listen()
        fact = look()["programs"]
        assert fact.numbers == {"living": ["18"], "stale": ["17.sock"]}
        assert fact.verdict is Verdict.NOTE
    assert stale.exists()


def test_packages_are_held_against_the_ranges():
    versions = {"a": "1.5", "b": "3.0", "d": "not a version"}

    def version_of(name):
        from importlib.metadata import PackageNotFoundError

        if name not in versions:
            raise PackageNotFoundError(name)
        return versions[name]

    requires = ["a>=1", "b>=1,<2", "c>=2", "d>=1", "e>=1; extra == 'cuda'"]
    facts = {fact.name: fact for fact in package_facts(requires, version_of)}
    assert problems(facts) == {"b", "c", "d"}
    assert facts["b"].advice in ("pip install 'b<2,>=1'", "pip install 'b>=1,<2'")
    assert facts["packages"].numbers == {"in_range": 1}


@pytest.mark.parametrize(
    ("streams", "environment", "name"),
    [
        (Streams(True, True, 40, 10, "utf-8"), {"TERM": "xterm"}, "size"),
        (Streams(True, True, 80, 24, "utf-8"), {"TERM": "dumb"}, "terminal"),
        (Streams(True, True, 80, 24, "utf-8"), {}, "terminal"),
        (Streams(True, True, 80, 24, "ascii"), {"TERM": "xterm"}, "characters"),
    ],
)
def test_a_terminal_that_lacks_something_is_noted(model, look, streams, environment, name):
    facts = look(streams=streams, environment=environment)
    notes = {n for n, fact in facts.items() if fact.verdict is Verdict.NOTE}
    assert notes == {name}
    assert facts[name].advice


def test_little_memory_names_the_nearest_setting_that_fits(model, look, monkeypatch):
    real = psutil.virtual_memory()
    probe = look()["memory plan"].numbers
    # room for the weights, and for a part of one full context
    free = probe["weight_bytes"] + probe["working_bytes"] + probe["kv_bytes"] // 2
    monkeypatch.setattr(psutil, "virtual_memory", lambda: real._replace(available=free))
    fact = look(environment={"LOCALPAGED_KV_MEMORY": "64M"})["memory plan"]
    assert fact.verdict is Verdict.PROBLEM
    nearest = fact.numbers["nearest"]
    assert nearest and nearest in fact.advice
    words = nearest.split()
    environment = {
        f"LOCALPAGED_{name[2:].replace('-', '_').upper()}": value
        for name, value in zip(words[::2], words[1::2], strict=True)
    }
    fixed = look(environment={"LOCALPAGED_KV_MEMORY": "64M", **environment})["memory plan"]
    assert fixed.verdict is not Verdict.PROBLEM, fixed


@pytest.mark.parametrize(
    ("given", "nearest"),
    [
        ({"LOCALPAGED_KV_MEMORY"}, "no --kv-memory"),
        ({"LOCALPAGED_HOST_MEMORY"}, "no --host-memory"),
        ({"LOCALPAGED_KV_MEMORY", "LOCALPAGED_HOST_MEMORY"}, "no --kv-memory and no --host-memory"),
    ],
)
def test_memory_that_was_asked_for_and_is_not_there_is_what_to_leave_out(
    model, look, monkeypatch, given, nearest
):
    memory = psutil.virtual_memory()._replace(total=8 * GIB, available=2 * GIB)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)
    # more than is free; of KV memory even more than there is at all
    sizes = {"LOCALPAGED_KV_MEMORY": "9G", "LOCALPAGED_HOST_MEMORY": "4G"}
    fact = look(environment={name: sizes[name] for name in given})["memory plan"]
    assert (fact.verdict, fact.numbers["nearest"]) == (Verdict.PROBLEM, nearest)


def test_no_memory_at_all_asks_for_a_smaller_model(model, look, monkeypatch):
    real = psutil.virtual_memory()
    monkeypatch.setattr(psutil, "virtual_memory", lambda: real._replace(available=1 << 10))
    fact = look()["memory plan"]
    assert (fact.verdict, fact.numbers["nearest"]) == (Verdict.PROBLEM, None)
    assert "smaller model" in fact.advice


def test_on_a_card_every_model_is_planned_with_the_cards_memory(model, look):
    facts = look(nvidia=GPU, build=CUDA_BUILD)
    plan, fits = facts["memory plan"].numbers, facts["fits"].numbers
    assert plan["free_bytes"] == 20 * GIB
    assert plan["graph_bytes"] > 0 and plan["reserve_bytes"] > 0
    assert facts["number format"].numbers == {"weights": "bfloat16", "kv": "bfloat16"}
    assert (fits["fits"], fits["name"]) == (True, DEFAULT_MODEL)
    assert fits["context_tokens"] == plan["context_tokens"]
    assert "cuda:0" in facts["fits"].value


def test_a_model_that_does_not_fit_on_the_card_is_told_with_what_would(model, look):
    card = replace(CUDA_BUILD.cards.cards[0], free_bytes=1 << 20)
    build = replace(CUDA_BUILD, cards=replace(CUDA_BUILD.cards, cards=(card,)))
    facts = look(nvidia=GPU, build=build)
    assert facts["memory plan"].verdict is Verdict.PROBLEM
    assert "on cuda:0 (RTX 4090)" in facts["memory plan"].value
    for name in ("memory plan", "fits"):
        assert facts[name].numbers["nearest"] == "--device cpu"
    assert facts["fits"].verdict is Verdict.NOTE
    fixed = look(nvidia=GPU, build=build, environment={"LOCALPAGED_DEVICE": "cpu"})
    assert fixed["memory plan"].verdict is Verdict.OK


def test_a_model_that_cannot_be_opened_hides_no_other(model):
    (paths.models_dir() / "aaa.json").write_text('{"path": "/nowhere/x.gguf", "origin": "x"}')
    report = [fact for fact in all_facts() if fact.name == "fits"]
    assert [fact.verdict for fact in report] == [Verdict.NOTE, Verdict.OK]
    assert "not known" in report[0].value


def all_facts():
    """Return all facts, those with one name, too."""
    seams = Seams(read_nvidia=Nvidia, read_torch=lambda: CPU_BUILD, environment={})
    return [fact for group in examine(seams).groups for fact in group.facts]


def test_an_endpoint_is_not_asked_and_needs_no_model(home, look):
    facts = look(environment={"LOCALPAGED_MODEL": "http://127.0.0.1:9/v1#x"})
    assert problems(facts) == set()
    assert "answers elsewhere" in facts["model"].value


def test_the_processors_abilities_and_formats_are_told_with_the_reason(model, look):
    facts = look()
    assert "VNNI" in facts["abilities"].value and "no AMX" in facts["abilities"].value
    plain = replace(CPU_BUILD, cpu={"avx2": True}, num_threads=10_000)
    facts = look(build=plain)
    assert facts["threads"].verdict is Verdict.NOTE
    assert "AVX2" in facts["abilities"].value
