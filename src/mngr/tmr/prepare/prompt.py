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
from mngr.base.errors import MngrError, UsageError, closest
from mngr.base.model import Record

OWN = os.path.join(".mngr", "brief.md")
_LINE = "<!-- From here on it differs from task to task. -->"
_VALUES = (
    "task", "verdict", "command", "block", "evidence", "cause", "witnesses", "covered", "refused", "hint", "job",
)  # fmt: skip
_VALUE = re.compile(r"\{\{ *(\w+) *\}\}")
_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]"
)  # what a terminal would obey, or cannot carry
_EVIDENCE, _LISTED = 6000, 30  # characters; entries of a list


class Template(Record):
    """The sections, in order, as (name, text)."""

    shared: tuple[tuple[str, str], ...]
    own: tuple[tuple[str, str], ...]


class Brief(Record):
    """A text for one agent. `shared` is how many of its characters all agents of the run are told alike."""

    text: str
    shared: int

    @property
    def tokens(self) -> int:
        """About how many a model will count."""
        return tokens(self.text)

    @property
    def shared_tokens(self) -> int:
        """About how many of them are the same for all."""
        return tokens(self.text[: self.shared])


def load(project: str | None = None) -> Template:
    """Our template with the sections that a project has in their place; UsageError when those fit nowhere."""
    with open(os.path.join(os.path.dirname(__file__), "prompt.md"), encoding="utf-8") as file:
        above, _, below = file.read().partition(_LINE)
    template = Template(shared=tuple(_sections(above)[1].items()), own=tuple(_sections(below)[1].items()))
    if project is None:
        return template
    path = os.path.join(project, OWN)
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        return template
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise MngrError(
            f"cannot read {path}: {reason}", "mend it, or remove it to use the built-in text"
        ) from None
    return override(template, text)


def override(template: Template, text: str) -> Template:
    """The template with the sections of `text` instead of its own."""
    before, sections = _sections(text)
    names = [name for name, _ in (*template.shared, *template.own)]
    if before.strip():
        raise UsageError(f"{OWN} begins with text that is in no section", f"put it under one: ## {names[0]}")
    for name in sections:
        if name not in names:
            hint = closest(name, names) or "the sections are: " + ", ".join(names)
            raise UsageError(f"{OWN} has a section {name!r}, which the brief has not", hint)
    _check(sections, [name for name, _ in template.shared])
    return Template(
        shared=tuple((name, sections.get(name, old)) for name, old in template.shared),
        own=tuple((name, sections.get(name, old)) for name, old in template.own),
    )


def compose(
    template: Template,
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
) -> Brief:
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
        "task": _line(task),
        "verdict": _line(verdict),
        "command": _fenced(shell.join(command), "sh"),
        "block": _fenced(block, "sh"),
        "evidence": quoted(evidence, "text"),
        "cause": _line(cause),
        "witnesses": _listed(witnesses),
        "covered": _listed(covered),
        "refused": _listed(refused),
        "hint": _plain(hint).strip(),
        "job": f"```mngr-job\n{json.dumps(job)}\n```",
    }
    shared = "".join(_shown(name, text) for name, text in template.shared if text)
    shared = shared.partition("\n\n")[2]  # some programs take a message that begins with # as an order
    own = "".join(
        _shown(name, _filled(text, values)) for name, text in template.own if _is_wanted(text, values)
    )
    return Brief(text=shared + own.rstrip("\n") + "\n", shared=len(shared))


def remind(problems: Sequence[str]) -> str:
    """What an agent is told whose result cannot be taken as it is."""
    rows = "".join(f"- {_plain(problem)}\n" for problem in problems)
    return (
        f"Your task is not done yet:\n{rows}Commit your work, one commit for each kind, and write"
        " $MNGR_OUTPUT_DIR/result.json in one step, as your instructions say. Then stop.\n"
    )


def quoted(text: str, language: str) -> str:
    """A text of others, of which the middle is left out if it is long, as a block that it cannot end."""
    return _fenced(_middle_cut(text), language)


def tokens(text: str) -> int:
    """An estimate that needs no tokenizer: four bytes each."""
    return (len(text.encode("utf-8", "replace")) + 3) // 4


def _sections(text: str) -> tuple[str, dict[str, str]]:
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


def _check(sections: dict[str, str], shared: Iterable[str]) -> None:
    for name, text in sections.items():
        for value in _VALUE.findall(text):
            if value not in _VALUES:
                hint = closest(value, _VALUES) or "there are: " + ", ".join(_VALUES)
                raise UsageError(f"{OWN}, section {name!r}: there is no {{{{{value}}}}}", hint)
            if name in shared:
                raise UsageError(
                    f"{OWN}, section {name!r}: {{{{{value}}}}} differs from task to task, and this section may not",
                    "put it in the section Task",
                )


def _is_wanted(text: str, values: dict[str, str]) -> bool:
    used = _VALUE.findall(text)
    return bool(text) and (not used or any(values[name] for name in used))


def _filled(text: str, values: dict[str, str]) -> str:
    return _VALUE.sub(lambda found: values[found[1]], text)


def _shown(name: str, text: str) -> str:
    return f"## {name}\n\n{text}\n\n"


def _plain(text: str) -> str:
    """A text of others without what a terminal would obey, and without a job of its own."""
    return _CONTROL.sub("�", text.replace("\r\n", "\n")).replace("```mngr-job", "``` mngr-job")


def _line(text: str) -> str:
    return " ".join(_plain(text).split())


def _fenced(text: str, language: str) -> str:
    """A text of others as a block that it cannot end."""
    text = _plain(text).strip("\n")
    if not text.strip():
        return ""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence}{language}\n{text}\n{fence}"


def _middle_cut(text: str) -> str:
    if len(text) <= _EVIDENCE:
        return text
    half = _EVIDENCE // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters left out …]\n{text[-half:]}"


def _listed(names: Sequence[str]) -> str:
    rows = [f"- {_line(name)}" for name in names[:_LISTED]]
    return "\n".join(rows + ([f"- and {len(names) - _LISTED} more"] if len(names) > _LISTED else []))
