"""The text rules stay few, and the documentation lists each rule."""

from __future__ import annotations

import ast
import re

from mngr.tmr.verify import text_checks
from mngr.tmr.verify.experiments.experiment import OUTCOMES
from mngr.tmr.verify.experiments.run_experiments import list_unmade
from tests.support.paths import ROOT

VERIFY = ROOT / "src/mngr/tmr/verify"
NO_RULES = {"entry-points", "commit-tree", "merge-tree", "rev-parse"}
MAX_LINES = 2500


def test_all_text_rules_together_have_at_most_2500_lines() -> None:
    assert text_checks.__file__ == str(VERIFY / "text_checks.py")
    files = [*(VERIFY / "rules").rglob("*.py"), VERIFY / "text_checks.py", VERIFY / "experiments/text_rule_weight.py"]
    assert len(files) > 10
    assert sum(len(path.read_text().splitlines()) for path in files) <= MAX_LINES


def test_the_documentation_lists_every_rule() -> None:
    files = [*(VERIFY / "rules").rglob("*.py"), *(VERIFY / "experiments").rglob("*.py"), VERIFY / "red_green.py"]
    texts = [
        node.value
        for path in files
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    rules = {text for text in texts if re.fullmatch("[a-z]+(-[a-z]+)+", text)} - NO_RULES
    assert "check-removed" in rules
    page = (ROOT / "docs/guide/findings.md").read_text()
    assert sorted(rule for rule in rules if f"`{rule}`" not in page) == []


def test_the_page_about_experiments_explains_every_experiment_and_outcome() -> None:
    page = (ROOT / "docs/concepts/experiments.md").read_text()
    names = {row.name for row in list_unmade("mngr ran no test").rows} | {"red_green"}
    assert sorted(name for name in (*names, *OUTCOMES) if f"\n| `{name}` | " not in page) == []
    picture = (ROOT / "docs/images/experiments.svg").read_text()
    assert sorted(name for name in names if f">{name}: " not in picture) == []
