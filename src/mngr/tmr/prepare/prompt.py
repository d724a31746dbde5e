"""Builds the prompt of a task's agent: first a part that all agents of a run share, then the agent's own task.

The shared part comes first so that prompt caches work. The template is `prompt.md`, in sections `## NAME`. A project
replaces sections with its own sections of the same name in `.mngr/prompt.md`. Values that differ between tasks are
`{{name}}` placeholders, below the marker line. A section is skipped when all of its values are empty.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from typing import Any

from mngr.base import shell
from mngr.base.errors import MngrError, UsageError, describe_file_error, suggest_closest
from mngr.base.model import Struct
from mngr.base.paths import read_plain_file
from mngr.tmr.prepare.verdict_of_one_test import describe_verdict

_MAX_PROMPT_BYTES = 1024 * 1024
PROJECT_PROMPT_FILE = os.path.join(".mngr", "prompt.md")
_SHARED_END_MARKER = "<!-- From here on it differs from task to task. -->"
_PLACEHOLDERS = (
    "task",
    "verdict",
    "command",
    "block",
    "evidence",
    "root_cause",
    "affected_tests",
    "covered",
    "rejected",
    "hint",
    "job",
)
_PLACEHOLDER_PATTERN = re.compile(r"\{\{ *(\w+) *\}\}")
_CONTROL_CHARACTERS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]"
)  # a terminal would interpret these, or cannot print them
_EVIDENCE, _LISTED = 6000, 30  # at most: characters of evidence, entries of a list


class PromptTemplate(Struct):
    """The sections of a prompt in order, each as (name, text)."""

    shared_sections: tuple[tuple[str, str], ...]
    task_sections: tuple[tuple[str, str], ...]


class TaskDescription(Struct):
    """Everything that a prompt says about one task."""

    task: str  # the id that the agent's result must name
    test: str | None = None  # the test that the command runs, if it is not the task
    command: Sequence[str]
    verdict: str
    block: str = ""  # the tutorial block that the test cites
    evidence: str = ""
    root_cause: str = ""
    affected_tests: Sequence[str] = ()
    covered: Sequence[str] = ()
    rejections: Sequence[str] = ()
    hint: str = ""
    tutorial: str | None = None
    runs: int = 2  # how often the agent must see the test pass

    def build_job(self) -> dict[str, Any]:
        """Return the job in the form that the agents without a model read."""
        job: dict[str, Any] = {
            "job": "repair",
            "task": self.task,
            "test": self.test or self.task,
            "command": list(self.command),
            "tutorial": self.tutorial,
            "runs": self.runs,
        }
        if self.affected_tests:
            job["affected_tests"] = list(self.affected_tests)
        if self.verdict == "flaky":
            job["before"] = self.verdict
        return job

    def format_values(self) -> dict[str, str]:
        """Return the text of each placeholder."""
        return {
            "task": _join_lines(self.task),
            "verdict": _join_lines(describe_verdict(self.verdict)),
            "command": _fence_block(shell.join(self.command), "sh"),
            "block": _fence_block(self.block, "sh"),
            "evidence": quote_block(self.evidence, "text"),
            "root_cause": _join_lines(self.root_cause),
            "affected_tests": _format_list(self.affected_tests),
            "covered": _format_list(self.covered),
            "rejected": _format_list(self.rejections),
            "hint": _remove_control_characters(self.hint).strip(),
            "job": f"```mngr-job\n{json.dumps(self.build_job())}\n```",
        }


class Prompt(Struct):
    """The prompt of one agent. Its first `shared_length` characters are the same for all agents of the run."""

    text: str
    shared_length: int

    @property
    def tokens(self) -> int:
        """Return the estimated number of tokens."""
        return estimate_tokens(self.text)

    @property
    def shared_tokens(self) -> int:
        """Return the estimated number of tokens in the shared part."""
        return estimate_tokens(self.text[: self.shared_length])


def load_template(project: str | None = None) -> PromptTemplate:
    """Return the built-in template, with the project's own sections where it has them.

    Raises UsageError when a section of the project has an unknown name or placeholder.
    """
    with open(os.path.join(os.path.dirname(__file__), "prompt.md"), encoding="utf-8") as file:
        shared_text, _, task_text = file.read().partition(_SHARED_END_MARKER)
    template = PromptTemplate(
        shared_sections=tuple(_split_sections(shared_text)[1].items()),
        task_sections=tuple(_split_sections(task_text)[1].items()),
    )
    if project is None:
        return template
    path = os.path.join(project, PROJECT_PROMPT_FILE)
    try:
        text = read_plain_file(
            path, _MAX_PROMPT_BYTES
        ).decode()  # Agents read it, so it must not be a link to a secret.
    except FileNotFoundError:
        return template
    except (OSError, ValueError) as error:
        raise MngrError(
            f"cannot read {path}: {describe_file_error(error)}",
            f"correct the file, or delete it to use the built-in prompt: rm {shell.quote(path)}",
        ) from None
    return override_sections(template, text)


def override_sections(template: PromptTemplate, text: str) -> PromptTemplate:
    """Return the template with its sections replaced by those of `text`."""
    preamble, sections = _split_sections(text)
    names = [name for name, _ in (*template.shared_sections, *template.task_sections)]
    if preamble.strip():
        raise UsageError(
            f"{PROJECT_PROMPT_FILE} begins with text that has no heading",
            f"put the text below a heading, for example: ## {names[0]}",
        )
    for name in sections:
        if name not in names:
            hint = suggest_closest(name, names) or "use one of: " + ", ".join(names)
            raise UsageError(
                f"{PROJECT_PROMPT_FILE} has a section {name!r}, but the built-in prompt has no section of this name",
                hint,
            )
    _check_sections(sections, [name for name, _ in template.shared_sections])
    return PromptTemplate(
        shared_sections=tuple((name, sections.get(name, old)) for name, old in template.shared_sections),
        task_sections=tuple((name, sections.get(name, old)) for name, old in template.task_sections),
    )


def build_prompt(template: PromptTemplate, task: TaskDescription) -> Prompt:
    """Build the prompt of one task."""
    values = task.format_values()
    shared_text = "".join(_render_section(name, text) for name, text in template.shared_sections if text)
    shared_text = shared_text.partition("\n\n")[2]  # some agents treat a message that begins with # as a command
    task_text = "".join(
        _render_section(name, _fill_placeholders(text, values))
        for name, text in template.task_sections
        if _has_values(text, values)
    )
    return Prompt(text=shared_text + task_text.rstrip("\n") + "\n", shared_length=len(shared_text))


def build_reminder(problems: Sequence[str]) -> str:
    """Return the message for an agent whose result cannot be accepted yet."""
    rows = "".join(f"- {_remove_control_characters(problem)}\n" for problem in problems)
    return (
        f"Your task is not finished:\n{rows}Commit your work, with one commit for each kind of change. Then write"
        " $MNGR_OUTPUT_DIR/result.json in one step, as your instructions say. Then stop.\n"
    )


def quote_block(text: str, language: str) -> str:
    """Return untrusted text as a code block that the text cannot close, shortened in the middle if it is long."""
    return _fence_block(_cut_middle(text), language)


def estimate_tokens(text: str) -> int:
    """Return an estimate that needs no tokenizer: four bytes per token."""
    return (len(text.encode("utf-8", "replace")) + 3) // 4


def _split_sections(text: str) -> tuple[str, dict[str, str]]:
    """Return the text before the first `## NAME`, and the text under each heading. Fenced code has no headings."""
    preamble: list[str] = []
    sections: dict[str, list[str]] = {}
    rows, fence = preamble, ""
    for line in text.splitlines():
        if not fence and line.startswith("## "):
            rows = sections.setdefault(line[3:].strip(), [])
            continue
        ticks = re.match(r"`{3,}", line)
        if ticks and (not fence or (line.strip() == ticks[0] and len(ticks[0]) >= len(fence))):
            fence = "" if fence else ticks[0]
        rows.append(line)
    return "\n".join(preamble), {name: "\n".join(lines).strip("\n") for name, lines in sections.items()}


def _check_sections(sections: dict[str, str], shared: Iterable[str]) -> None:
    """Raise UsageError for an unknown placeholder, or for any placeholder in a shared section."""
    for name, text in sections.items():
        for value in _PLACEHOLDER_PATTERN.findall(text):
            if value not in _PLACEHOLDERS:
                hint = suggest_closest(value, _PLACEHOLDERS) or "use one of: " + ", ".join(_PLACEHOLDERS)
                raise UsageError(f"{PROJECT_PROMPT_FILE}, section {name!r}: unknown placeholder {{{{{value}}}}}", hint)
            if name in shared:
                raise UsageError(
                    f"{PROJECT_PROMPT_FILE}, section {name!r}: {{{{{value}}}}} differs between tasks, but this section is the same for all tasks",
                    "move the placeholder to the section Task",
                )


def _has_values(text: str, values: dict[str, str]) -> bool:
    """True when a section has text and needs no values, or has at least one of them."""
    used = _PLACEHOLDER_PATTERN.findall(text)
    return bool(text) and (not used or any(values[name] for name in used))


def _fill_placeholders(text: str, values: dict[str, str]) -> str:
    return _PLACEHOLDER_PATTERN.sub(lambda match: values[match[1]], text)


def _render_section(name: str, text: str) -> str:
    return f"## {name}\n\n{text}\n\n"


def _remove_control_characters(text: str) -> str:
    """Return untrusted text without terminal control characters and without a `mngr-job` block."""
    return _CONTROL_CHARACTERS.sub("�", text.replace("\r\n", "\n")).replace("```mngr-job", "``` mngr-job")


def _join_lines(text: str) -> str:
    return " ".join(_remove_control_characters(text).split())


def _fence_block(text: str, language: str) -> str:
    """Return untrusted text as a code block that the text cannot close."""
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
