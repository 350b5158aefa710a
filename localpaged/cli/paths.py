"""`localpaged paths`: where things are."""

from __future__ import annotations

import click


@click.command("paths")
@click.option("--json", "is_json", is_flag=True, help="Print one JSON object.")
def paths_command(is_json: bool) -> None:
    """Show where localpaged keeps its files.

    \b
    config_file    settings; `config --template` prints one
    database_file  the history; backups_dir has the copies made before its schema changed
    models_dir     models, or where they are
    log_file       warnings and errors that no screen shows
    kv_dir         KV memory of earlier runs; safe to delete, as all of cache_dir
    weights_dir    rounded weights of earlier starts
    socket_dir     sockets of running programs
    data_dir, state_dir and cache_dir are the folders they are in.
    """
    import json

    from localpaged import paths
    from localpaged.kv_files.folder import kv_root
    from localpaged.models.kept_weights import weights_root
    from localpaged.plain_text import visible
    from localpaged.store.failures import BACKUPS

    found = {
        "config_file": paths.config_file(),
        "database_file": paths.database_file(),
        "backups_dir": paths.database_file().parent / BACKUPS,
        "models_dir": paths.models_dir(),
        "log_file": paths.log_file(),
        "data_dir": paths.data_dir(),
        "state_dir": paths.state_dir(),
        "cache_dir": paths.cache_dir(),
        "kv_dir": kv_root(),
        "weights_dir": weights_root(),
        "socket_dir": paths.runtime_dir(),
    }
    if is_json:
        click.echo(json.dumps({name: str(path) for name, path in found.items()}, indent=2))
        return
    for name, path in found.items():
        missing = "" if paths.is_there(path) else "   (not there yet)"
        click.echo(f"{name:<14} {visible(str(path))}{missing}")
