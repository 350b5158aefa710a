"""Sections of the config file and addresses become endpoints, or are refused in a sentence."""

import subprocess
import sys
from pathlib import Path

import pytest

from localpaged import paths
from localpaged.chat.models import name_of
from localpaged.cli.config import template
from localpaged.config_file import read_config
from localpaged.errors import ConfigError, ModelError
from localpaged.models.registry import add_entry
from localpaged.remote.endpoint import Endpoint, find_endpoint
from localpaged.remote.section import KEYS

BOX = Endpoint("box", "https://gpu-box/v1", "m1", key_env="BOX_KEY")


def read(text: str) -> tuple[Endpoint, ...]:
    paths.ensure_private_dir(paths.config_file().parent)
    paths.config_file().write_text(text)
    return read_config().remotes


def test_every_key_of_a_section_is_read_and_stands_in_the_template():
    section = "\n".join(
        f"{key.name} = {key.example}" for key in KEYS if key.name != "key_keyring"
    ).replace("http://", "https://")
    (box,) = read(f"[remote.gpu-box]\n{section}\n")
    assert (box.name, box.model, box.key_env) == ("gpu-box", "qwen3-32b", "GPU_BOX_KEY")
    assert (box.headers, box.context, box.timeout_s) == ((("X-Team", "lab"),), 32_768, 120)
    assert (box.sampling, box.can_continue) == (("top_k", "min_p"), True)
    assert all(f"# {key.name} = {key.example}" in template() for key in KEYS)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[remote]\nbox = 7", "remote.box must be a section"),
        ("remote = 7", "remote must be sections"),
        ("[remote.box]\nmodel = 'm'", "remote.box has no url"),
        ("[remote.box]\nurl = 'ftp://host/v1'", "not the address of an endpoint"),
        ("[remote.box]\nurl = 'http://host:99999/v1'", "not the address of an endpoint"),
        (
            "[remote.box]\nurl = 'http://host/v1'\nmodle = 'm'",
            "remote.box.modle; did you mean model",
        ),
        ("[remote.box]\nurl = 'http://host/v1'\nkey = 'sk-1'", "no key remote.box.key; did"),
        ("[remote.box]\nurl = 7", "remote.box.url must be a text"),
        ("[remote.box]\nurl = 'http://host/v1'\ntimeout_s = 'long'", "timeout_s must be a number"),
        ("[remote.box]\nurl = 'http://host/v1'\ntimeout_s = 0", "timeout_s must be above 0"),
        ("[remote.box]\nurl = 'http://host/v1'\ncontext = 0", "at least 1 token"),
        ("[remote.box]\nurl = 'http://host/v1'\nkind = 'tgi'", "kind must be one of auto, openai"),
        ("[remote.box]\nurl = 'http://host/v1'\nsampling = ['dry']", "sampling may name top_k"),
        ("[remote.'a b']\nurl = 'http://host/v1'", "cannot be the name of an endpoint"),
        ("[remote.a]\nurl='http://h/v1'\n[remote.A]\nurl='http://h/v1'", "there twice"),
        ("[remote.box]\nurl='https://h/v1'\nkey_env='A'\nkey_keyring='a/b'", "not in both"),
        ("[remote.box]\nurl = 'http://lab/v1'\nkey_env = 'A'", "unencrypted"),
    ],
)
def test_a_mistake_is_told_with_file_and_key(text, told):
    with pytest.raises(ConfigError) as refused:
        read(text)
    assert told in refused.value.message
    assert refused.value.message.startswith(str(paths.config_file()))


def test_a_model_is_named_by_section_by_section_and_model_or_by_address():
    assert find_endpoint("box", [BOX]) is BOX is find_endpoint("BOX", [BOX])
    other = find_endpoint("box#m2", [BOX])
    assert other is not None
    assert (other.name, other.model, other.key_env) == ("box#m2", "m2", "BOX_KEY")
    assert find_endpoint("my-model", [BOX]) is None is find_endpoint("/models/a.gguf", [BOX])
    by_url = find_endpoint("http://lab:8000/v1/#org/m3", [BOX])
    assert by_url is not None
    assert (by_url.name, by_url.url, by_url.model) == (
        "org/m3@lab:8000",
        "http://lab:8000/v1",
        "org/m3",
    )
    assert find_endpoint(by_url.choice, [BOX]) == by_url
    assert name_of(by_url.choice) == by_url.name


def test_an_address_that_a_section_has_is_asked_with_its_key_and_no_other_is():
    assert find_endpoint("https://gpu-box/v1", [BOX]) is BOX
    assert find_endpoint("https://gpu-box/v1/#m1", [BOX]) is BOX
    stranger = find_endpoint("https://gpu-box.example/v1#m1", [BOX])
    assert stranger is not None and not stranger.has_key


def test_a_name_that_a_model_here_has_as_well_is_refused(begin, endpoint, tmp_path: Path):
    (tmp_path / "other").mkdir()
    add_entry("other", tmp_path / "other", origin="test")
    run = begin(endpoint, Endpoint("other", endpoint.url, "m1"))
    with pytest.raises(ModelError, match=r"a model on this machine and an endpoint"):
        run.service.load_model("other")


def test_nothing_of_a_remote_chat_loads_torch(endpoint, home):
    script = (
        "import sys; from localpaged.cli.main import main\n"
        "try: main(['ask', 'Hi', '--model', sys.argv[1]])\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "heavy = {'torch', 'transformers', 'textual'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, f"{endpoint.url}#m1"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "Hello, world\n"), done.stderr
