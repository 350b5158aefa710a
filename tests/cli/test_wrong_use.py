"""Options, commands and models that cannot be: one sentence, what to do, an exit code."""

from __future__ import annotations

import pytest

from localpaged import __version__, wiring
from localpaged.models.catalogue import DEFAULT_MODEL
from testkit.commands import call
from testkit.gguf_files import add_byte_level_tokenizer, save_tiny_gguf


@pytest.fixture(autouse=True)
def no_engine(monkeypatch, request):
    """Wrong options must be found before anything is opened."""
    if "model" in request.node.name:
        return

    def refuse(settings):
        raise AssertionError("the engine was started")

    monkeypatch.setattr(wiring, "open_service", refuse)


def assert_is_told(done, code, *parts):
    assert (done.code, done.out) == (code, "")
    sentence, *rest = done.err.splitlines()
    assert sentence.startswith("localpaged: ")
    assert sentence.endswith((".", "?"))
    assert not rest or (len(rest) == 1 and rest[0].startswith("hint: "))
    for part in parts:
        assert part in done.err


@pytest.mark.parametrize(
    ("option", "value", "field"),
    [
        ("--temperature", "-1", "temperature"),
        ("--temperature", "nan", "temperature"),
        ("--temperature", "inf", "temperature"),
        ("--temperature", "warm", "--temperature"),
        ("--top-p", "2", "top_p"),
        ("--top-p", "0", "top_p"),
        ("--top-k", "-1", "top_k"),
        ("--min-p", "1.5", "min_p"),
        ("--max-tokens", "0", "max_tokens"),
        ("--seed", "-1", "seed"),
        ("--seed", "9" * 20, "seed"),
        ("--stop", "", "stop string"),
        ("--context", "1", "context of 1 token"),
        ("--context", "0", "--context"),
        ("--kv-memory", "1K", "1,024 bytes of KV memory"),
        ("--kv-memory", "0", "--kv-memory"),
        ("--kv-memory", "much", "--kv-memory"),
        ("--threads", "0", "--threads"),
        ("--dtype", "int3", "--dtype"),
    ],
)
def test_a_value_out_of_range_names_its_field(option, value, field):
    assert_is_told(call("ask", option, value, "Hi"), 2, field)


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["ask", "--temprature", "0", "Hi"], "--temperature"),
        (["chta"], "chat"),
        (["models", "lst"], "list"),
        (["ask", "--json", "--seed"], "--seed"),
    ],
)
def test_what_is_written_wrong_is_named_with_the_nearest_that_exists(arguments, part):
    assert_is_told(call(*arguments), 2, part, "--help")


@pytest.mark.parametrize("arguments", [[], ["chat"]])
def test_the_chat_needs_a_terminal_and_points_to_ask(arguments):
    assert_is_told(call(*arguments), 2, "needs a terminal", "localpaged ask")


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_is_on_stdout(option):
    done = call(option)
    assert (done.code, done.err) == (0, "")
    assert all(name in done.out for name in ("ask", "chat", "models"))


def test_the_version_is_told():
    assert call("--version").out == f"localpaged, version {__version__}\n"


# models


def test_an_unknown_model_tells_which_are_here(ready_home):
    done = call("ask", "--model", "smollm", "Hi")
    assert_is_told(done, 4, "'smollm'", f"Did you mean {DEFAULT_MODEL}?")
    assert_is_told(call("ask", "--model", "nix", "Hi"), 4, f"Models here: {DEFAULT_MODEL}")


def test_without_any_model_it_tells_how_to_get_one(home):
    assert_is_told(call("ask", "Hi"), 4, "is not here yet", "localpaged models pull")


def test_the_model_may_come_from_the_environment(home, monkeypatch):
    monkeypatch.setenv("LOCALPAGED_MODEL", "nix")
    assert_is_told(call("ask", "Hi"), 4, "'nix'")


def bad_models(folder, default_model):
    (folder / "folder").mkdir()
    (folder / "empty.gguf").touch()
    (folder / "page.gguf").write_text("<!DOCTYPE html><title>Not found</title>")
    (folder / "cut.gguf").write_bytes(default_model.open("rb").read(5_000_000))
    (folder / "noise.gguf").write_bytes(bytes(range(256)) * 16)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("folder", "config.json"),
        ("empty.gguf", "empty"),
        ("page.gguf", "web page"),
        ("cut.gguf", "98,362,432 bytes"),
        ("noise.gguf", "not a GGUF file"),
        ("none.gguf", "no model"),
    ],
)
def test_a_file_that_is_no_model_is_named(home, tmp_path, default_model, name, part):
    bad_models(tmp_path, default_model)
    path = str(tmp_path / name)
    assert_is_told(call("ask", "--model", path, "Hi"), 4, path, part)


def test_a_hostile_name_of_a_model_drives_no_terminal(home):
    done = call("ask", "--model", "x\x1b[31m\udcff\u202e", "Hi")
    assert_is_told(done, 4, "x␛[31m<U+DCFF><U+202E>")


def test_a_base_model_has_no_chat_template(home, tmp_path):
    def without_template(writer):
        add_byte_level_tokenizer(writer, chat_template=None)

    path = save_tiny_gguf(tmp_path, "llama", tokenizer=without_template)
    assert_is_told(call("ask", "--model", str(path), "Hi"), 4, path.stem, "base model")
