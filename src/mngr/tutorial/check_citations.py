"""Finds blocks of a tutorial that no test cites, and citations that match no block."""

from __future__ import annotations

import difflib
import heapq
from typing import Any

from mngr.base.model import Struct
from mngr.tutorial.blocks import (
    Block,
    ReadProblem,
    TutorialScript,
    compute_block_id,
    normalize_text,
    parse_script,
    read_script,
)
from mngr.tutorial.citations import Citation, Citations, read_tests
from mngr.tutorial.paths import TutorialPaths

MIN_SIMILARITY = 0.6  # similarity from which a block counts as the one that a stale citation means
_MIN_LEAD = 0.05  # lead over the next block from which --fix rewrites a citation
_MAX_COMPARED = 100  # the number of blocks that are compared in full: those that share the most words
_WARNING_KINDS = ("duplicate",)


class TutorialFinding(Struct):
    """A problem between the tutorial and its tests: gap, stale, orphan, duplicate or unreadable."""

    kind: str
    path: str
    line: int
    message: str
    test: str | None = None
    block: str | None = None  # the block id; for a stale citation, the id of the nearest block
    diff: str | None = None  # from the citation to that block
    fix: str | None = None  # why --fix does not rewrite it; empty when it does

    @property
    def is_warning(self) -> bool:
        """True when the tutorial is complete despite this finding."""
        return self.kind in _WARNING_KINDS


class CitedCommandBlock(Struct):
    """A block with commands, and the tests that cite it."""

    block: Block
    tests: list[str]
    observed: bool  # True when only unreviewed tests cite it

    def to_dict(self) -> dict[str, Any]:
        """Return the form that mngr writes as JSON."""
        return {
            "id": self.block.id,
            "slug": self.block.slug,
            "line": self.block.line,
            "section": self.block.section,
            "tests": self.tests,
            "observed": self.observed,
        }


class StaleCitation(Struct):
    """A citation of an older text, and the block it now belongs to."""

    citation: Citation
    block: Block
    finding: TutorialFinding


class TutorialReport(Struct):
    """The result of a comparison."""

    script: TutorialScript
    tests: Citations
    blocks: list[CitedCommandBlock]
    stale: list[StaleCitation]
    findings: list[TutorialFinding]

    @property
    def is_complete(self) -> bool:
        """True when every block is cited and every citation matches a block."""
        return all(finding.is_warning for finding in self.findings)

    @property
    def counts(self) -> dict[str, int]:
        """The number of blocks, citations and findings of each kind."""
        kinds = [finding.kind for finding in self.findings]
        cited = [block for block in self.blocks if block.tests]
        return {
            "blocks": len(self.blocks),
            "cited": len(cited),
            "observed": sum(block.observed for block in cited),
            "citations": len(self.tests.citations),
            **{kind: kinds.count(kind) for kind in ("gap", "stale", "orphan", "duplicate", "unreadable")},
            "blanks": len(self.script.empty_headings),
        }


def check_tutorial(tutorial_paths: TutorialPaths) -> TutorialReport:
    """Compare the script with its tests. Raise MngrError when one of them does not exist."""
    script = read_script(tutorial_paths.file, tutorial_paths.to_display_path(tutorial_paths.file))
    return compare_with_tests(script, read_tests(tutorial_paths.tests, tutorial_paths.to_display_path))


def compare_with_tests(script: TutorialScript, tests: Citations) -> TutorialReport:
    """Compare a script with citations that are already read."""
    known_ids = {block.id for block in script.blocks}
    command_blocks = [block for block in script.blocks if block.commands]
    by_block: dict[str, list[Citation]] = {block.id: [] for block in command_blocks}
    unmatched: list[Citation] = []
    for citation in tests.citations:
        for block_id in citation.block_ids & known_ids:
            by_block.setdefault(block_id, []).append(citation)
        if not citation.block_ids & known_ids:
            unmatched.append(citation)
    findings = [_build_unreadable(problem) for problem in (*script.problems, *tests.problems)]
    findings += [_build_gap(script, block) for block in _drop_duplicates(command_blocks) if not by_block[block.id]]
    stale, orphans = _match_lost_citations(script, command_blocks, by_block, unmatched)
    findings += [item.finding for item in stale] + orphans
    findings += [*_list_repeated_blocks(script, command_blocks), *_list_repeated_citations(tests)]
    blocks = [
        CitedCommandBlock(
            block=block,
            tests=list(dict.fromkeys(citation.test for citation in by_block[block.id])),
            observed=bool(by_block[block.id]) and all(c.observed for c in by_block[block.id]),
        )
        for block in command_blocks
    ]
    return TutorialReport(script=script, tests=tests, blocks=blocks, stale=stale, findings=findings)


def _build_unreadable(problem: ReadProblem) -> TutorialFinding:
    return TutorialFinding(kind="unreadable", **problem.to_dict())


def _build_gap(script: TutorialScript, block: Block) -> TutorialFinding:
    message = f"no test cites this block: {block.slug}"
    return TutorialFinding(kind="gap", path=script.path, line=block.line, message=message, block=block.id)


def _drop_duplicates(blocks: list[Block]) -> list[Block]:
    """Return each block once, even if the script repeats it."""
    return list({block.id: block for block in reversed(blocks)}.values())[::-1]


def _match_lost_citations(
    script: TutorialScript, command_blocks: list[Block], by_block: dict[str, list[Citation]], unmatched: list[Citation]
) -> tuple[list[StaleCitation], list[TutorialFinding]]:
    """Split the unmatched citations into stale ones, with the nearest block, and orphans."""
    stale: list[StaleCitation] = []
    orphans: list[TutorialFinding] = []
    compared_blocks = [(block, _ComparedText(block.text)) for block in _drop_duplicates(command_blocks)]
    intended: set[tuple[str, str]] = set()  # pairs of a test and the block that it will cite
    for citation in unmatched:
        measure = _SimilarityMeasure(citation)
        candidates = heapq.nlargest(
            _MAX_COMPARED, compared_blocks, key=lambda item: measure.count_shared_words(item[1])
        )
        scored = [(measure(compared), not by_block[block.id], block) for block, compared in candidates]
        similar = [item for item in scored if item[0] >= MIN_SIMILARITY]
        if not similar:
            message = f"{citation.test} cites a block that is not in {script.path}, and no block is similar"
            orphans.append(
                TutorialFinding(
                    kind="orphan", path=citation.path, line=citation.line, message=message, test=citation.test
                )
            )
            continue
        # Prefer a block that no test cites yet.
        similar.sort(key=lambda item: item[0] + (_MIN_LEAD if item[1] else 0), reverse=True)
        block = similar[0][2]
        reason = _explain_no_rewrite(citation, similar, by_block, intended)
        intended.add((citation.test, block.id))
        stale.append(
            StaleCitation(citation=citation, block=block, finding=_build_stale(script, citation, block, reason))
        )
    return stale, orphans


def _explain_no_rewrite(
    citation: Citation,
    similar: list[tuple[float, bool, Block]],
    by_block: dict[str, list[Citation]],
    intended: set[tuple[str, str]],
) -> str:
    """Return why a stale citation cannot be rewritten automatically, or an empty string when it can."""
    similarity, is_gap, block = similar[0]
    rivals = [other for other in similar[1:] if other[1] >= is_gap and similarity - other[0] < _MIN_LEAD]
    if rivals:
        return f"the block in line {rivals[0][2].line} is as similar as the one in line {block.line}"
    if any(other.test == citation.test for other in by_block[block.id]) or (citation.test, block.id) in intended:
        return "the test already cites that block"
    return ""


def _build_stale(script: TutorialScript, citation: Citation, block: Block, reason: str) -> TutorialFinding:
    location = f"{script.path}:{block.line}"
    message = f"{citation.test} cites a block that has changed; the most similar block is {location} ({block.slug})"
    diff = difflib.unified_diff(
        normalize_text(citation.text).split("\n"),
        normalize_text(block.text).split("\n"),
        f"{citation.path}:{citation.line}",
        location,
        lineterm="",
    )
    return TutorialFinding(
        kind="stale",
        path=citation.path,
        line=citation.line,
        message=message,
        test=citation.test,
        block=block.id,
        diff="\n".join(diff) + "\n",
        fix=reason,
    )


def _list_repeated_blocks(script: TutorialScript, command_blocks: list[Block]) -> list[TutorialFinding]:
    first_lines: dict[str, int] = {}
    findings = []
    for block in command_blocks:
        if block.id in first_lines:
            message = f"this block is already in line {first_lines[block.id]}: {block.slug}"
            findings.append(
                TutorialFinding(kind="duplicate", path=script.path, line=block.line, message=message, block=block.id)
            )
        first_lines.setdefault(block.id, block.line)
    return findings


def _list_repeated_citations(tests: Citations) -> list[TutorialFinding]:
    first_lines: dict[tuple[str, str], int] = {}
    findings = []
    for citation in tests.citations:
        key = citation.test, compute_block_id(citation.text)
        if key in first_lines:
            message = f"{citation.test} already cites this block in line {first_lines[key]}"
            findings.append(
                TutorialFinding(
                    kind="duplicate",
                    path=citation.path,
                    line=citation.line,
                    message=message,
                    test=citation.test,
                    block=key[1],
                )
            )
        first_lines.setdefault(key, citation.line)
    return findings


class _ComparedText:
    """A text prepared for comparison: the whole text, its comments, and the words of its commands."""

    def __init__(self, text: str) -> None:
        self.text = normalize_text(text)
        self.bag = set(self.text.split())
        lines = self.text.split("\n")
        self.comments = [line.lstrip("# ").lower() for line in lines if line.startswith("#")]
        script = parse_script(self.text)
        self.words = [word for block in script.blocks for command in block.commands for word in command.split()]


class _SimilarityMeasure:
    """Measures how similar a citation is to a block."""

    def __init__(self, citation: Citation) -> None:
        self._mine = [_ComparedText(text) for text in dict.fromkeys((citation.text, citation.source_text))]
        self._matchers = [difflib.SequenceMatcher(None, "", cited.text, autojunk=False) for cited in self._mine]

    def count_shared_words(self, compared: _ComparedText) -> float:
        """Return the share of words in common, as a quick first estimate."""
        return max(len(cited.bag & compared.bag) / len(cited.bag | compared.bag) for cited in self._mine)

    def __call__(self, compared: _ComparedText) -> float:
        """Return the similarity from 0 to 1.

        The same commands under another comment count as similar, and so does the same comment over other commands.
        """
        best = 0.0
        for cited, matcher in zip(self._mine, self._matchers, strict=True):
            matcher.set_seq1(compared.text)
            if matcher.real_quick_ratio() >= MIN_SIMILARITY and matcher.quick_ratio() >= MIN_SIMILARITY:
                best = max(best, matcher.ratio())
            if cited.words and cited.words == compared.words:
                best = max(best, 0.95)
            if cited.comments and cited.comments == compared.comments:
                best = max(best, 0.9)
        return best
