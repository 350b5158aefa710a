"""Why a prompt was not cached, in plain sentences: what was found, where it parts, what helps."""

from __future__ import annotations

from localpaged.chat.cache_report import CacheCause, CacheReport, Parting
from localpaged.plain_text import visible
from localpaged.tui.figures import grouped, percent
from localpaged.tui.markdown.line import BLANK, STRONG, Line, Role, Run
from localpaged.tui.markdown.wrap import wrap_runs

LABEL_CELLS = 8

CAUSES = {
    CacheCause.NOTHING: (
        "Everything that had been computed before was found; only new text was read.",
        "",
    ),
    CacheCause.FIRST_TURN: (
        "It is the first prompt of this chat, so nothing of it had been computed for it.",
        "What it shares with other chats is found anyway.",
    ),
    CacheCause.EDITED: (
        "An earlier message was changed, and all that follows it had to be read again.",
        "Only an edit costs this. The later it is in the chat, the less.",
    ),
    CacheCause.VIEW_MOVED: (
        "What the model sees of the chat begins at another message than before.",
        "That is what you chose when the context was full; /show-all takes it back.",
    ),
    CacheCause.TEMPLATE_CHANGED: (
        "The same messages are written differently than before: the system prompt, or something "
        "that the model's chat template inserts, has changed.",
        "Set the system prompt at the beginning of a chat. A template with today's date changes "
        "once a day.",
    ),
    CacheCause.REASONING_STRIPPED: (
        "The model's chat template leaves the reasoning of earlier answers out, so the prompt is "
        "not what was computed.",
        "There is nothing to do: what follows the reasoning is read once more, then it is found.",
    ),
    CacheCause.RETOKENISED: (
        "The same text was split into other tokens than before.",
        "There is nothing to do: from now on the prompt is found as it is now.",
    ),
    CacheCause.EVICTED: (
        "It had been computed, but memory was needed for something else.",
        "Give the engine more memory (--kv-memory), or keep this chat in it with /pin.",
    ),
    CacheCause.RESTARTED: (
        "It was computed by another run of localpaged, whose memory is gone; no KV file has it.",
        "KV files are written when nothing is asked for a while and at the end (--kv-disk limits "
        "them). From now on it is found.",
    ),
    CacheCause.OTHER_NAMESPACE: (
        "It was computed by another model, or in another number format; each has to "
        "compute for itself.",
        "Going back to that model finds what it still has in memory.",
    ),
}


def why_lines(report: CacheReport, cells: int) -> list[Line]:
    """Return the whole explanation in lines of `cells`."""
    sentence, advice = CAUSES[report.cause]
    found = (
        f"{grouped(report.matched_tokens)} of {grouped(report.prompt_tokens)} prompt tokens "
        f"({percent(report.matched_tokens, report.prompt_tokens)}) were found in memory, "
        f"{grouped(report.recomputed_tokens)} were computed."
    )
    lines = [*wrap_runs([Run(found, Role.TEXT)], cells)]
    if report.restored_tokens:
        text = f"{grouped(report.restored_tokens)} of those were restored from disk."
        lines += wrap_runs([Run(text, Role.TEXT)], cells)
    if report.restore_note:
        lines += wrap_runs([Run(visible(report.restore_note), Role.WARNING)], cells)
    lines.append(BLANK)
    lines += wrap_runs([Run(sentence, Role.USER, STRONG)], cells)
    lost = report.agreed_tokens - report.matched_tokens
    if report.cause in (CacheCause.EVICTED, CacheCause.RESTARTED) and lost > 0:
        text = f"{grouped(lost)} of them had been computed before."
        lines += wrap_runs([Run(text, Role.TEXT)], cells)
    if report.parting is not None:
        lines += [BLANK, *_parting_lines(report.parting, cells)]
    if advice:
        lines += [BLANK, *wrap_runs([Run(advice, Role.DIM)], cells)]
    return lines


def hint_of(report: CacheReport | None) -> str:
    """Return what a status line says of a loss that nobody asked for; else nothing."""
    if report is None or not report.is_surprising:
        return ""
    return f"{grouped(report.recomputed_tokens)} computed again"


def _parting_lines(parting: Parting, cells: int) -> list[Line]:
    where = f"They part at token {grouped(parting.position)}, after:"
    lines = wrap_runs([Run(where, Role.TEXT)], cells)
    for label, text, role in (
        ("", parting.common_text, Role.DIM),
        ("before", parting.old_text, Role.WARNING),
        ("now", parting.new_text, Role.SUCCESS),
    ):
        quoted = wrap_runs([Run(f"“{visible(text)}”", role)], max(1, cells - LABEL_CELLS))
        for number, line in enumerate(quoted):
            word = label if number == 0 else ""
            lines.append(Line((Run(word.ljust(LABEL_CELLS), Role.FAINT), *line.runs)))
    return lines
