"""A snapshot as text for people: the numbers of the dashboard, once, without colours."""

from __future__ import annotations

import time

from localpaged.cli.offline import Offline
from localpaged.cli.stats_look import (
    NAME_CELLS,
    Look,
    bar,
    cells_of,
    counted,
    curve,
    duration,
)
from localpaged.plain_text import visible
from localpaged.stats.schema import Blocks, ChatStats, Latency, ModelStats, Series, Snapshot
from localpaged.tui.figures import byte_size, grouped, percent, rate

BAR_CELLS = 48
MAX_CHAT_ROWS = 20


def snapshot_text(snapshot: Snapshot, look: Look) -> str:
    """Return all lines of a program."""
    program, memory = snapshot.program, snapshot.memory
    lines = [
        look.join(
            f"localpaged {visible(program.command)} {visible(program.version)}",
            f"pid {program.pid}",
            f"up {duration(snapshot.taken_at - program.started_at)}",
        ),
        look.join(
            f"memory    {byte_size(memory.rss_bytes)} in use by it",
            f"{byte_size(memory.system_free_bytes)} free of {byte_size(memory.system_total_bytes)}",
        ),
    ]
    lines += [f"loading   {visible(name)}" for name in snapshot.loading]
    for model in snapshot.models:
        lines += ["", *_model_lines(model, look)]
    if not snapshot.models and not snapshot.loading:
        lines.append("no model is loaded")
    return look.fit(lines)


def facts_text(offline: Offline, look: Look) -> str:
    """Return what is known while no program runs."""
    lines = []
    if offline.error is not None:
        lines.append(f"history   {visible(offline.error.message)}")
    else:
        lines.append(
            look.join(
                f"history   {byte_size(offline.database_bytes)}",
                counted(offline.chats, "chat"),
                counted(offline.messages, "message"),
                visible(str(offline.database)),
            )
        )
    if offline.kv_disk_bytes:
        lines.append(f"kept KV   {byte_size(offline.kv_disk_bytes)} on the disk")
    models = ", ".join(map(visible, offline.models)) or "none"
    lines.append(f"models    {models}")
    run = offline.last_run
    if run is not None:
        lines.append(
            look.join(
                f"last run  {visible(run.command)} with {visible(run.model)}",
                time.strftime("%Y-%m-%d %H:%M", time.localtime(run.started_at)),
                f"{duration(run.last_at - run.started_at)} long",
                counted(run.generated_tokens, "token") + " generated",
                f"{percent(run.cached_prompt_tokens, run.prompt_tokens)} of prompts found",
                "" if run.is_ended else "ended without a word",
            )
        )
    return look.fit(lines)


def _model_lines(model: ModelStats, look: Look) -> list[str]:
    blocks, totals, rates = model.blocks, model.totals, model.rates
    weights = "" if model.weights_bytes is None else f"weights {byte_size(model.weights_bytes)}"
    most = byte_size(blocks.max * blocks.bytes_per_block)
    kv = f"KV {byte_size(model.kv_bytes)} of up to {most}"
    fill = model.slots.fill
    if not blocks.total:
        # an endpoint elsewhere: it has no KV memory here, and is counted there
        return [look.join(visible(model.name), visible(model.device), "answers elsewhere")]
    lines = [
        look.join(visible(model.name), visible(model.device), visible(model.dtype), weights, kv),
        f"KV        {_kv_bar(blocks, look)}",
        look.join(
            f"blocks    {grouped(blocks.total)}",
            f"{look.active} {grouped(blocks.active)} active",
            f"{look.pinned} {grouped(blocks.pinned)} pinned",
            f"{look.cached} {grouped(blocks.cached)} cached",
            f"{grouped(blocks.free)} free",  # its sign is a dot, like the mark before it
            "" if fill is None else f"held slots {100 * fill:.0f} % full",
        ),
        _host_line(model, look),
        f"graphs    {visible(model.graphs)}" if model.graphs else "",
        look.join(
            f"speed     prefill {rate(rates.prefill_tokens_per_s)}",
            f"decode {rate(rates.decode_tokens_per_s)}",
            f"{rates.batch_rows:.1f} rows a step",
        ),
        _curve_line("prefill", model.history.prefill_tokens_per_s, look),
        _curve_line("decode", model.history.decode_tokens_per_s, look),
        f"TTFT      {_latency(model.ttft, look)}",
        f"token     {_latency(model.inter_token, look)}",
        look.join(
            f"requests  {grouped(totals.requests)}",
            f"{model.running} running",
            f"{model.queue_length} waiting",
            counted(totals.generated_tokens, "token") + " generated",
        ),
        look.join(
            "prompts   " + counted(totals.prompt_tokens, "token"),
            f"{grouped(totals.cached_prompt_tokens)} found"
            f" ({percent(totals.cached_prompt_tokens, totals.prompt_tokens)})",
            f"{byte_size(model.hit_bytes)} of KV not computed again",
        ),
        look.join(
            "events    " + counted(totals.block_copies, "copy", "copies"),
            counted(totals.evicted_blocks, "eviction"),
            counted(totals.preemptions, "preemption"),
        ),
        _tree_line(model, look),
        *_chat_lines(model),
    ]
    return [line for line in lines if line]


def _kv_bar(blocks: Blocks, look: Look) -> str:
    parts = [
        (look.active, blocks.active),
        (look.pinned, blocks.pinned),
        (look.cached, blocks.cached),
    ]
    cells = cells_of(BAR_CELLS, look.columns - NAME_CELLS)
    return bar(parts, blocks.total, cells).ljust(cells, look.free)


def _curve_line(name: str, series: Series, look: Look) -> str:
    known = [point for point in series if point is not None]
    if not any(known):
        return ""
    return f"{name:<9} {curve(series, look)}  up to {rate(max(known))}"


def _host_line(model: ModelStats, look: Look) -> str:
    host, totals = model.host, model.totals
    if not host.total_blocks:
        return ""
    return look.join(
        f"host      {grouped(host.used_blocks)} of {grouped(host.total_blocks)} blocks used",
        f"{grouped(totals.swapped_out_blocks)} swapped out",
        f"{grouped(totals.swapped_in_blocks)} swapped in",
    )


def _latency(latency: Latency, look: Look) -> str:
    p50, p95, p99 = latency.p50_ms, latency.p95_ms, latency.p99_ms
    if p50 is None or p95 is None or p99 is None:
        return look.none
    told = (f"p{n} {_milliseconds(ms)}" for n, ms in ((50, p50), (95, p95), (99, p99)))
    return look.join(*told, f"of the last {grouped(latency.count)}")


def _milliseconds(value: float) -> str:
    return f"{value:.1f} ms" if value < 100 else f"{value:,.0f} ms"


def _tree_line(model: ModelStats, look: Look) -> str:
    tree = model.tree
    if tree is None:
        return ""
    saved = byte_size(tree.saved_blocks * model.blocks.bytes_per_block)
    return look.join(
        "tree      " + counted(tree.num_branches, "branch", "branches"),
        counted(tree.num_blocks, "block"),
        f"sharing saves {grouped(tree.saved_blocks)} ({saved})",
    )


def _chat_lines(model: ModelStats) -> list[str]:
    if not model.chats:
        return []
    lines = ["", f"{'STATE':<8} {'TOKENS':>9} {'OWN':>7} {'SHARED':>7}  CHAT"]
    lines += [_chat_line(chat) for chat in model.chats[:MAX_CHAT_ROWS]]
    more = model.num_chats - MAX_CHAT_ROWS
    return [*lines, f"and {grouped(more)} more"] if more > 0 else lines


def _chat_line(chat: ChatStats) -> str:
    title = visible(chat.title) or visible(chat.chat_id) or "(no chat)"
    return (
        f"{visible(chat.state):<8} {grouped(chat.tokens):>9} {grouped(chat.own_blocks):>7}"
        f" {grouped(chat.shared_blocks):>7}  {title}"
    )
