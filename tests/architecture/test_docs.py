"""What the README promises exists, and what exists is in the README."""

import re
from pathlib import Path

import pytest

from localpaged import paths
from localpaged.cli.ask import ask
from localpaged.cli.main import COMMANDS
from localpaged.cli.options import ENGINE_KEYS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_is_in_the_readme(command):
    assert f"localpaged {command}" in README


@pytest.mark.parametrize("variable", [paths.HOME_VARIABLE, ENGINE_KEYS["model"].variable])
def test_every_environment_variable_is_in_the_readme(variable):
    assert variable in README


@pytest.mark.parametrize("option", [p.opts[0] for p in ask.params if p.opts])
def test_every_option_of_ask_has_help(option):
    parameter = next(p for p in ask.params if option in p.opts)
    assert option == "question" or getattr(parameter, "help", None)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_relative_link_leads_somewhere(document):
    for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", document.read_text()):
        assert (document.parent / target).exists(), target


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_source_file_that_is_named_exists(document):
    for name in re.findall(
        r"`((?:localpaged|kernels|tests|benchmarks)/[\w/.]+)`", document.read_text()
    ):
        assert (ROOT / name).exists(), name


@pytest.mark.parametrize("target", ["setup", "chat", "test", "check", "bench"])
def test_the_makefile_has_the_promised_targets(target):
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
