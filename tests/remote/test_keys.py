"""Keys come from the environment or the keyring, and are in nothing that the program writes."""

import json
import logging
import sys
import traceback
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from localpaged import paths
from localpaged.cli.main import main
from localpaged.errors import ConfigError
from localpaged.log_file import logging_to_file
from localpaged.remote.endpoint import Endpoint, find_endpoint
from localpaged.remote.keys import without_key
from testkit.scripted_endpoint import delta, event, json_reply, stream

KEY = "sk-Secret0123456789abcdef"


@pytest.fixture
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOX_KEY", f" {KEY}\n")


@pytest.mark.usefixtures("_key")
def test_the_key_is_sent_and_is_nowhere_else(begin, endpoint, home):
    endpoint.models = None
    endpoint.replies = [
        stream("fine"),
        json_reply(401, {"error": {"message": f"Incorrect API key {KEY}, or {KEY[:-4]}****"}}),
        [stream()[0], delta(content="x"), event({"error": {"message": f"bad {KEY}"}})],
    ]
    run = begin(endpoint, key_env="BOX_KEY")
    with logging_to_file():
        logging.getLogger().setLevel(logging.DEBUG)
        run.ask()
        errors = [run.fail(), run.fail()]
    assert all(a.headers["authorization"] == f"Bearer {KEY}" for a in endpoint.asked)
    told = "".join(repr(event) for event in run.recorder.events)
    told += "".join(e.message + e.hint + "".join(traceback.format_exception(e)) for e in errors)
    told += repr(run.service) + json.dumps([c.title for c in run.service.chats()])
    run.service.close()
    files = [path for path in home.rglob("*") if path.is_file()]
    assert files
    written = b"".join(path.read_bytes() for path in files)
    assert KEY[:-4] not in told and KEY[:-4].encode() not in written
    assert "does not accept the key" in errors[0].message and "BOX_KEY" in errors[0].hint


@pytest.mark.usefixtures("_key")
def test_config_models_and_exports_have_no_key(begin, endpoint, home):
    paths.ensure_private_dir(paths.config_file().parent)
    paths.config_file().write_text(
        f'[remote.box]\nurl = "{endpoint.url}"\nkey_env = "BOX_KEY"\n'
        f'headers = {{ X-Team = "{KEY}" }}\n'
    )
    shown = ""
    run = begin(endpoint, key_env="BOX_KEY")
    run.ask()
    run.service.close()
    commands = ("config", "models list", "models info box", "history list", "history export --all")
    for command in (*commands, *(f"{c} --json" for c in commands[:4])):
        done = CliRunner().invoke(main, command.split(), standalone_mode=False)
        assert done.exit_code == 0, done.output
        shown += done.output
    assert "BOX_KEY" in shown and "X-Team" in shown and "box" in shown
    assert KEY not in shown


def test_a_key_that_is_not_set_is_told_by_its_variable(begin, endpoint):
    error = begin(endpoint, key_env="NO_SUCH_KEY").fail()
    assert "NO_SUCH_KEY" in error.message and "export NO_SUCH_KEY=" in error.hint
    assert not endpoint.asked


@pytest.mark.parametrize("key", [f"{KEY}\nX-Evil: 1", "schlüssel", "two words"])
def test_a_key_that_no_header_can_carry_is_refused_without_being_told(
    begin, endpoint, monkeypatch, key
):
    monkeypatch.setenv("BOX_KEY", key)
    error = begin(endpoint, key_env="BOX_KEY").fail()
    assert "characters that no key can have" in error.message and key not in error.message
    assert not endpoint.asked


def test_a_key_may_be_in_the_keyring(begin, endpoint, monkeypatch):
    entries = {("localpaged", "box"): KEY}
    keyring = SimpleNamespace(get_password=lambda service, user: entries.get((service, user)))
    monkeypatch.setitem(sys.modules, "keyring", keyring)
    run = begin(endpoint, key_keyring="localpaged/box")
    assert run.ask().error is None
    assert endpoint.posts[0].headers["authorization"] == f"Bearer {KEY}"
    entries.clear()
    assert "keyring has no entry localpaged/box" in run.fail().message
    monkeypatch.setitem(sys.modules, "keyring", None)
    assert "pip install keyring" in run.fail().hint


def test_a_key_is_not_sent_readable_to_another_machine_unless_told():
    with pytest.raises(ConfigError, match="unencrypted") as refused:
        Endpoint("box", "http://gpu-box:8000/v1", key_env="BOX_KEY")
    assert "plain_http" in refused.value.hint
    for url in ("https://gpu-box/v1", "http://127.0.0.1:8000/v1", "http://[::1]:8000/v1"):
        Endpoint("box", url, key_env="BOX_KEY")
    Endpoint("box", "http://gpu-box:8000/v1", key_env="BOX_KEY", plain_http=True)


@pytest.mark.parametrize(
    "url", [f"https://me:{KEY}@host/v1", f"https://{KEY}@host/v1#m", f"https://host/v1?key={KEY}"]
)
def test_an_address_with_a_secret_in_it_is_refused_without_repeating_it(url):
    with pytest.raises(ConfigError) as refused:
        find_endpoint(url, ())
    assert KEY not in refused.value.message + refused.value.hint
    assert "key_env" in refused.value.hint


def test_a_header_with_a_key_is_refused():
    with pytest.raises(ConfigError, match="into a file") as refused:
        Endpoint("box", "https://host/v1", headers=(("Authorization", f"Bearer {KEY}"),))
    assert KEY not in refused.value.message
    assert KEY not in repr(Endpoint("box", "https://host/v1", headers=(("X-A", KEY),)))


def test_beginnings_of_a_key_are_taken_out_of_others_texts_as_well():
    assert without_key(f"key {KEY[:12]}… is bad", KEY) == "key [key]… is bad"
    assert without_key("nothing to hide", KEY) == "nothing to hide"
    assert without_key("no key", "") == "no key"


@pytest.mark.parametrize("source", ["option", "variable", "file"])
def test_an_address_with_a_password_is_refused_by_every_command_and_not_shown(monkeypatch, source):
    address = f"https://me:{KEY}@host/v1#m"
    arguments = ["config"]
    if source == "option":
        arguments += ["--model", address]
    elif source == "variable":
        monkeypatch.setenv("LOCALPAGED_MODEL", address)
    else:
        paths.ensure_private_dir(paths.config_file().parent)
        paths.config_file().write_text(f'[engine]\nmodel = "{address}"\n')
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 2 and "may not contain a user or password" in done.output
    assert KEY not in done.output
