"""`localpaged config`: what is set by whom."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import click

from localpaged import paths
from localpaged.chat.sampling_options import OPTIONS
from localpaged.cli.options import engine_options, engine_sources, settings_from
from localpaged.config_file import ConfigFile, read_config
from localpaged.config_schema import ENGINE, KEYMAP, KEYS, SAMPLING, SECTIONS, SERVER, UI
from localpaged.engine.params import DryParams, SamplingParams
from localpaged.plain_text import visible


@click.command("config")
@click.option("--json", "is_json", is_flag=True, help="Print one JSON object.")
@click.option("--template", "is_template", is_flag=True, help="Print a config file to begin with.")
@engine_options
@click.pass_context
def config_command(ctx: click.Context, /, is_json: bool, is_template: bool, **options: Any) -> None:
    """Show the settings in effect, and where each comes from.

    The command line goes before environment variables, these before the config file, and the file
    before defaults. The engine options are those of `chat` and `ask`.
    """
    if is_template:
        click.echo(template())
        return
    config = read_config()
    settings_from(options, config)
    rows = [*_engine_rows(ctx, config), *_file_rows(config), *_keymap_rows(config)]
    if config.remotes:
        from localpaged.cli.remotes import config_rows

        rows += config_rows(config.remotes)
    if is_json:
        values = [dict(zip(("name", "value", "source"), row, strict=True)) for row in rows]
        click.echo(json.dumps({"config_file": str(config.path), "settings": values}, indent=2))
        return
    is_there = "" if paths.is_there(config.path) else "   (not there: --template prints one)"
    click.echo(f"config file: {visible(str(config.path))}{is_there}\n")
    width = max(len(name) for name, _, _ in rows)
    for name, value, source in rows:
        click.echo(f"{name:<{width}}  {visible(_text(value)):<24}  {source}".rstrip())


def template() -> str:
    """Return a config file in which every key stands as a comment with its meaning."""
    from localpaged.cli.remotes import template_lines

    lines = [
        "# localpaged reads this file when it starts: `localpaged paths` tells where it belongs.",
        "# Options of the command line and LOCALPAGED_ variables go before it.",
    ]
    for section in SECTIONS:
        lines += ["", f"[{section}]"]
        keys = [key for key in KEYS if key.section == section]
        width = max((len(f"{key.name} = {key.example}") for key in keys), default=0)
        for key in keys:
            text = f"{key.name} = {key.example}"
            choices = f": {', '.join(key.choices)}" if key.choices else ""
            lines.append(f"# {text:<{width}}  # {key.doc}{choices} ({key.default})")
    return "\n".join([*lines, *_keymap_lines(), *template_lines()])


def _keymap_lines() -> Iterable[str]:
    from localpaged.tui.keymap import rebindable

    actions = list(rebindable())
    texts = [f"{action.id} = {_keys_text(action.keys)}" for action in actions]
    width = max(map(len, texts))
    yield '# An action and its key, or a list of keys: ["ctrl+e", "f7"]. What has "" has none yet.'
    for action, text in zip(actions, texts, strict=True):
        yield f"# {text:<{width}}  # {action.label}"


def _keys_text(keys: str) -> str:
    texts = [f'"{key}"' for key in keys.split(",")]
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def _engine_rows(ctx: click.Context, config: ConfigFile) -> Iterable[tuple[str, Any, str]]:
    for chosen in engine_sources(ctx, config):
        value = chosen.key.default.strip('"') if chosen.value is None else chosen.value
        yield f"{ENGINE}.{chosen.key.name}", value, chosen.source


def _file_rows(config: ConfigFile) -> Iterable[tuple[str, Any, str]]:
    for option in OPTIONS:
        yield _row(config, SAMPLING, option.name, _plain(config.sampling, option.name))
    for key in KEYS:
        if key.section == SERVER:
            value = getattr(config.server, key.name)
            yield _row(config, SERVER, key.name, key.default if value in (None, ()) else value)
    for name in ("theme", "width", "ascii"):
        value = getattr(config.ui, name)
        yield _row(config, UI, name, value if value != "" else "the one chosen last")


def _row(config: ConfigFile, section: str, name: str, value: Any) -> tuple[str, Any, str]:
    is_given = f"{section}.{name}" in config.given
    return f"{section}.{name}", value, "config file" if is_given else "default"


def _keymap_rows(config: ConfigFile) -> Iterable[tuple[str, Any, str]]:
    from localpaged.tui.keymap import make_keymap

    keymap = make_keymap(config)
    return [(f"{KEYMAP}.{action}", keys, "config file") for action, keys in keymap.items()]


def _plain(sampling: SamplingParams, name: str) -> Any:
    value = getattr(sampling, name)
    if isinstance(value, DryParams):
        return value.multiplier
    return list(value) if isinstance(value, tuple) else value


def _text(value: Any) -> str:
    if value is None or value == []:
        return "none"
    return str(value).lower() if isinstance(value, bool) else str(value)
