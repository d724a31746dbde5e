"""What an agent is told: one text for all agents of a run first, so that prompt caches hit, and then its own task.

The text is `prompt.md`, in sections `## NAME`. A project replaces sections by those of the same name in `.mngr/brief.md`. What
differs from task to task stands in `{{name}}`, below the line that says so; a section whose values are all empty is left out.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence

from mngr.base import shell
from mngr.base.errors import MngrError, UsageError, suggest_closest
from mngr.base.model import Struct

PROJECT_PROMPT_FILE = os.path.join(".mngr", "brief.md")
_SHARED_END_MARKER = "<!-- From here on it differs from task to task. -->"
_PLACEHOLDERS = (
    "task", "verdict", "command", "block", "evidence", "cause", "witnesses", "covered", "refused", "hint", "job",
)  # fmt: skip
_PLACEHOLDER_PATTERN = re.compile(r"\{\{ *(\w+) *\}\}")
_CONTROL_CHARACTERS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]"
)  # what a terminal would obey, or cannot carry
_EVIDENCE, _LISTED = 6000, 30  # characters; entries of a list


class PromptTemplate(Struct):
    """The sections, in order, as (name, text)."""

    shared_sections: tuple[tuple[str, str], ...]
    task_sections: tuple[tuple[str, str], ...]


class Prompt(Struct):
    """A text for one agent. `shared` is how many of its characters all agents of the run are told alike."""

    text: str
    shared_length: int

    @property
    def tokens(self) -> int:
        """About how many a model will count."""
        return estimate_tokens(self.text)

    @property
    def shared_tokens(self) -> int:
        """About how many of them are the same for all."""
        return estimate_tokens(self.text[: self.shared_length])


def load_template(project: str | None = None) -> PromptTemplate:
    """Our template with the sections that a project has in their place; UsageError when those fit nowhere."""
    with open(os.path.join(os.path.dirname(__file__), "prompt.md"), encoding="utf-8") as file:
        above, _, below = file.read().partition(_SHARED_END_MARKER)
    template = PromptTemplate(
        shared_sections=tuple(_split_sections(above)[1].items()),
        task_sections=tuple(_split_sections(below)[1].items()),
    )
    if project is None:
        return template
    path = os.path.join(project, PROJECT_PROMPT_FILE)
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        return template
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise MngrError(f"cannot read {path}: {reason}", "mend it, or remove it to use the built-in text") from None
    return override_sections(template, text)


def override_sections(template: PromptTemplate, text: str) -> PromptTemplate:
    """The template with the sections of `text` instead of its own."""
    before, sections = _split_sections(text)
    names = [name for name, _ in (*template.shared_sections, *template.task_sections)]
    if before.strip():
        raise UsageError(
            f"{PROJECT_PROMPT_FILE} begins with text that is in no section",
            f"put it under one: ## {names[0]}",
        )
    for name in sections:
        if name not in names:
            hint = suggest_closest(name, names) or "the sections are: " + ", ".join(names)
            raise UsageError(f"{PROJECT_PROMPT_FILE} has a section {name!r}, which the brief has not", hint)
    _check_sections(sections, [name for name, _ in template.shared_sections])
    return PromptTemplate(
        shared_sections=tuple((name, sections.get(name, old)) for name, old in template.shared_sections),
        task_sections=tuple((name, sections.get(name, old)) for name, old in template.task_sections),
    )


def build_prompt(
    template: PromptTemplate,
    *,
    task: str,
    command: Sequence[str],
    verdict: str,
    test: str | None = None,
    block: str = "",
    evidence: str = "",
    cause: str = "",
    witnesses: Sequence[str] = (),
    covered: Sequence[str] = (),
    refused: Sequence[str] = (),
    hint: str = "",
    tutorial: str | None = None,
    k: int = 2,
) -> Prompt:
    """The brief of one task. `task` is what the result must name, `test` the one that `command` runs, if that is another."""
    job = {
        "job": "repair",
        "task": task,
        "test": test or task,
        "command": list(command),
        "tutorial": tutorial,
        "k": k,
    }
    if witnesses:
        job["witnesses"] = list(witnesses)
    if verdict == "flaky":
        job["before"] = verdict
    values = {
        "task": _join_lines(task),
        "verdict": _join_lines(verdict),
        "command": _fence_block(shell.join(command), "sh"),
        "block": _fence_block(block, "sh"),
        "evidence": quote_block(evidence, "text"),
        "cause": _join_lines(cause),
        "witnesses": _format_list(witnesses),
        "covered": _format_list(covered),
        "refused": _format_list(refused),
        "hint": _remove_control_characters(hint).strip(),
        "job": f"```mngr-job\n{json.dumps(job)}\n```",
    }
    shared = "".join(_render_section(name, text) for name, text in template.shared_sections if text)
    shared = shared.partition("\n\n")[2]  # some programs take a message that begins with # as an order
    own = "".join(
        _render_section(name, _fill_placeholders(text, values))
        for name, text in template.task_sections
        if _has_values(text, values)
    )
    return Prompt(text=shared + own.rstrip("\n") + "\n", shared_length=len(shared))


def build_reminder(problems: Sequence[str]) -> str:
    """What an agent is told whose result cannot be taken as it is."""
    rows = "".join(f"- {_remove_control_characters(problem)}\n" for problem in problems)
    return (
        f"Your task is not done yet:\n{rows}Commit your work, one commit for each kind, and write"
        " $MNGR_OUTPUT_DIR/result.json in one step, as your instructions say. Then stop.\n"
    )


def quote_block(text: str, language: str) -> str:
    """A text of others, of which the middle is left out if it is long, as a block that it cannot end."""
    return _fence_block(_cut_middle(text), language)


def estimate_tokens(text: str) -> int:
    """An estimate that needs no tokenizer: four bytes each."""
    return (len(text.encode("utf-8", "replace")) + 3) // 4


def _split_sections(text: str) -> tuple[str, dict[str, str]]:
    """What stands before the first `## NAME`, and the text under each; code in fences has no headings."""
    before: list[str] = []
    found: dict[str, list[str]] = {}
    rows, fence = before, ""
    for line in text.splitlines():
        if not fence and line.startswith("## "):
            rows = found.setdefault(line[3:].strip(), [])
            continue
        ticks = re.match(r"`{3,}", line)
        if ticks and (not fence or (line.strip() == ticks[0] and len(ticks[0]) >= len(fence))):
            fence = "" if fence else ticks[0]
        rows.append(line)
    return "\n".join(before), {name: "\n".join(lines).strip("\n") for name, lines in found.items()}


def _check_sections(sections: dict[str, str], shared: Iterable[str]) -> None:
    for name, text in sections.items():
        for value in _PLACEHOLDER_PATTERN.findall(text):
            if value not in _PLACEHOLDERS:
                hint = suggest_closest(value, _PLACEHOLDERS) or "there are: " + ", ".join(_PLACEHOLDERS)
                raise UsageError(f"{PROJECT_PROMPT_FILE}, section {name!r}: there is no {{{{{value}}}}}", hint)
            if name in shared:
                raise UsageError(
                    f"{PROJECT_PROMPT_FILE}, section {name!r}: {{{{{value}}}}} differs from task to task, and this section may not",
                    "put it in the section Task",
                )


def _has_values(text: str, values: dict[str, str]) -> bool:
    used = _PLACEHOLDER_PATTERN.findall(text)
    return bool(text) and (not used or any(values[name] for name in used))


def _fill_placeholders(text: str, values: dict[str, str]) -> str:
    return _PLACEHOLDER_PATTERN.sub(lambda found: values[found[1]], text)


def _render_section(name: str, text: str) -> str:
    return f"## {name}\n\n{text}\n\n"


def _remove_control_characters(text: str) -> str:
    """A text of others without what a terminal would obey, and without a job of its own."""
    return _CONTROL_CHARACTERS.sub("�", text.replace("\r\n", "\n")).replace("```mngr-job", "``` mngr-job")


def _join_lines(text: str) -> str:
    return " ".join(_remove_control_characters(text).split())


def _fence_block(text: str, language: str) -> str:
    """A text of others as a block that it cannot end."""
    text = _remove_control_characters(text).strip("\n")
    if not text.strip():
        return ""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence}{language}\n{text}\n{fence}"


def _cut_middle(text: str) -> str:
    if len(text) <= _EVIDENCE:
        return text
    half = _EVIDENCE // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters left out …]\n{text[-half:]}"


def _format_list(names: Sequence[str]) -> str:
    rows = [f"- {_join_lines(name)}" for name in names[:_LISTED]]
    return "\n".join(rows + ([f"- and {len(names) - _LISTED} more"] if len(names) > _LISTED else []))
