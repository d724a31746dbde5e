"""What is missing between a tutorial and its tests: blocks that nobody cites, citations of what is not there."""

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

MIN_SIMILARITY = 0.6  # how much of a citation must be left in a block for it to be the one that was meant
_MIN_LEAD = 0.05  # by how much it must be nearer than any other for it to be rewritten
_MAX_COMPARED = 100  # blocks that share most words with a citation
_WARNING_KINDS = ("duplicate",)


class TutorialFinding(Struct):
    """Something to mend: gap, stale, orphan, duplicate or unreadable."""

    kind: str
    path: str
    line: int
    message: str
    test: str | None = None
    block: str | None = None  # the id; of a stale citation that of the nearest block
    diff: str | None = None  # from the citation to that block
    fix: str | None = None  # why --fix would not rewrite it; empty when it would

    @property
    def is_warning(self) -> bool:
        """Whether the tutorial is tested all the same."""
        return self.kind in _WARNING_KINDS


class CitedCommandBlock(Struct):
    """A block with commands and the tests that cite it."""

    block: Block
    tests: list[str]
    observed: bool  # by no other tests than those nobody has reviewed

    def to_dict(self) -> dict[str, Any]:
        """As it stands in JSON."""
        shown = {key: value for key, value in self.block.to_dict().items() if key in ("id", "slug", "line", "section")}
        return {**shown, "tests": self.tests, "observed": self.observed}


class StaleCitation(Struct):
    """A citation, and the block that it was of."""

    citation: Citation
    block: Block
    finding: TutorialFinding


class TutorialReport(Struct):
    """What a comparison found."""

    script: TutorialScript
    tests: Citations
    blocks: list[CitedCommandBlock]
    stale: list[StaleCitation]
    findings: list[TutorialFinding]

    @property
    def is_complete(self) -> bool:
        """Whether every block is cited and every citation matches."""
        return all(finding.is_warning for finding in self.findings)

    @property
    def counts(self) -> dict[str, int]:
        """How many there are of each."""
        kinds = [finding.kind for finding in self.findings]
        cited = [one for one in self.blocks if one.tests]
        return {
            "blocks": len(self.blocks),
            "cited": len(cited),
            "observed": sum(one.observed for one in cited),
            "citations": len(self.tests.citations),
            **{kind: kinds.count(kind) for kind in ("gap", "stale", "orphan", "duplicate", "unreadable")},
            "blanks": len(self.script.empty_headings),
        }


def check_tutorial(places: TutorialPaths) -> TutorialReport:
    """Compare the script with its tests; raises MngrError when one of them is not there."""
    script = read_script(places.file, places.to_display_path(places.file))
    return compare_with_tests(script, read_tests(places.tests, places.to_display_path))


def compare_with_tests(script: TutorialScript, tests: Citations) -> TutorialReport:
    """The same of what was read before."""
    known = {block.id for block in script.blocks}
    wanted = [block for block in script.blocks if block.commands]
    by_block: dict[str, list[Citation]] = {block.id: [] for block in wanted}
    lost: list[Citation] = []
    for citation in tests.citations:
        for found in citation.block_ids & known:
            by_block.setdefault(found, []).append(citation)
        if not citation.block_ids & known:
            lost.append(citation)
    findings = [_build_unreadable(problem) for problem in (*script.problems, *tests.problems)]
    findings += [_build_gap(script, block) for block in _drop_duplicates(wanted) if not by_block[block.id]]
    stale, orphans = _match_lost_citations(script, wanted, by_block, lost)
    findings += [one.finding for one in stale] + orphans
    findings += [*_list_repeated_blocks(script, wanted), *_list_repeated_citations(tests)]
    blocks = [
        CitedCommandBlock(
            block=block,
            tests=list(dict.fromkeys(citation.test for citation in by_block[block.id])),
            observed=bool(by_block[block.id]) and all(c.observed for c in by_block[block.id]),
        )
        for block in wanted
    ]
    return TutorialReport(script=script, tests=tests, blocks=blocks, stale=stale, findings=findings)


def _build_unreadable(problem: ReadProblem) -> TutorialFinding:
    return TutorialFinding(kind="unreadable", **problem.to_dict())


def _build_gap(script: TutorialScript, block: Block) -> TutorialFinding:
    said = f"no test cites this block: {block.slug}"
    return TutorialFinding(kind="gap", path=script.path, line=block.line, message=said, block=block.id)


def _drop_duplicates(blocks: list[Block]) -> list[Block]:
    """Each block once, however often it stands there."""
    return list({block.id: block for block in reversed(blocks)}.values())[::-1]


def _match_lost_citations(
    script: TutorialScript, wanted: list[Block], by_block: dict[str, list[Citation]], lost: list[Citation]
) -> tuple[list[StaleCitation], list[TutorialFinding]]:
    stale: list[StaleCitation] = []
    orphans: list[TutorialFinding] = []
    shapes = [(block, _ComparedText(block.text)) for block in _drop_duplicates(wanted)]
    meant: set[tuple[str, str]] = set()  # which test will cite which block
    for citation in lost:
        measure = _SimilarityMeasure(citation)
        likely = heapq.nlargest(_MAX_COMPARED, shapes, key=lambda one: measure.count_shared_words(one[1]))
        found = [(measure(shape), not by_block[block.id], block) for block, shape in likely]
        near = [one for one in found if one[0] >= MIN_SIMILARITY]
        if not near:
            said = f"{citation.test} cites a block that is not in {script.path}, and none is near"
            orphans.append(
                TutorialFinding(kind="orphan", path=citation.path, line=citation.line, message=said, test=citation.test)
            )
            continue
        near.sort(key=lambda one: one[0] + (_MIN_LEAD if one[1] else 0), reverse=True)  # a gap was meant, rather
        block = near[0][2]
        why = _explain_no_rewrite(citation, near, by_block, meant)
        meant.add((citation.test, block.id))
        stale.append(StaleCitation(citation=citation, block=block, finding=_build_stale(script, citation, block, why)))
    return stale, orphans


def _explain_no_rewrite(
    citation: Citation,
    near: list[tuple[float, bool, Block]],
    by_block: dict[str, list[Citation]],
    meant: set[tuple[str, str]],
) -> str:
    """Why a stale citation cannot be rewritten without asking; empty when it can."""
    likeness, is_gap, block = near[0]
    rivals = [other for other in near[1:] if other[1] >= is_gap and likeness - other[0] < _MIN_LEAD]
    if rivals:
        return f"the block in line {rivals[0][2].line} is as near as the one in line {block.line}"
    if any(other.test == citation.test for other in by_block[block.id]) or (citation.test, block.id) in meant:
        return "the test cites that block already"
    return ""


def _build_stale(script: TutorialScript, citation: Citation, block: Block, why: str) -> TutorialFinding:
    place = f"{script.path}:{block.line}"
    said = f"{citation.test} cites a block that is now another; the nearest is {place} ({block.slug})"
    diff = difflib.unified_diff(
        normalize_text(citation.text).split("\n"),
        normalize_text(block.text).split("\n"),
        f"{citation.path}:{citation.line}",
        place,
        lineterm="",
    )
    return TutorialFinding(
        kind="stale",
        path=citation.path,
        line=citation.line,
        message=said,
        test=citation.test,
        block=block.id,
        diff="\n".join(diff) + "\n",
        fix=why,
    )


def _list_repeated_blocks(script: TutorialScript, wanted: list[Block]) -> list[TutorialFinding]:
    first: dict[str, int] = {}
    found = []
    for block in wanted:
        if block.id in first:
            said = f"this block stands in line {first[block.id]} already: {block.slug}"
            found.append(
                TutorialFinding(kind="duplicate", path=script.path, line=block.line, message=said, block=block.id)
            )
        first.setdefault(block.id, block.line)
    return found


def _list_repeated_citations(tests: Citations) -> list[TutorialFinding]:
    seen: dict[tuple[str, str], int] = {}
    found = []
    for citation in tests.citations:
        key = citation.test, compute_block_id(citation.text)
        if key in seen:
            said = f"{citation.test} cites this block in line {seen[key]} already"
            found.append(
                TutorialFinding(
                    kind="duplicate",
                    path=citation.path,
                    line=citation.line,
                    message=said,
                    test=citation.test,
                    block=key[1],
                )
            )
        seen.setdefault(key, citation.line)
    return found


class _ComparedText:
    """A text as it is compared: all of it, its comments, the words of its commands."""

    def __init__(self, text: str) -> None:
        self.text = normalize_text(text)
        self.bag = set(self.text.split())
        lines = self.text.split("\n")
        self.comments = [line.lstrip("# ").lower() for line in lines if line.startswith("#")]
        script = parse_script(self.text)
        self.words = [word for block in script.blocks for command in block.commands for word in command.split()]


class _SimilarityMeasure:
    """How near a citation is to a block."""

    def __init__(self, citation: Citation) -> None:
        self._mine = [_ComparedText(text) for text in dict.fromkeys((citation.text, citation.source_text))]
        self._matchers = [difflib.SequenceMatcher(None, "", mine.text, autojunk=False) for mine in self._mine]

    def count_shared_words(self, shape: _ComparedText) -> float:
        """How many of their words are the same; a first guess, and a quick one."""
        return max(len(mine.bag & shape.bag) / len(mine.bag | shape.bag) for mine in self._mine)

    def __call__(self, shape: _ComparedText) -> float:
        """From 0 to 1. The same commands under another comment, or the same comment over other commands, are near."""
        best = 0.0
        for mine, matcher in zip(self._mine, self._matchers, strict=True):
            matcher.set_seq1(shape.text)
            if matcher.real_quick_ratio() >= MIN_SIMILARITY and matcher.quick_ratio() >= MIN_SIMILARITY:
                best = max(best, matcher.ratio())
            if mine.words and mine.words == shape.words:
                best = max(best, 0.95)
            if mine.comments and mine.comments == shape.comments:
                best = max(best, 0.9)
        return best
