"""The tests cite every block of mngr's own tutorial."""

from __future__ import annotations

import json

from mngr.e2e import E2eSession, expect
from tests.support.paths import ROOT


def test_every_block_is_cited_and_every_citation_matches(e2e: E2eSession) -> None:
    result = e2e.run("mngr tutorial check tutorial.sh tests/docs/tutorial", cwd=ROOT)
    expect(result).to_succeed().to_match_lines("<cited> of <cited> blocks are cited")
    assert int(e2e.names["cited"]) >= 60


def test_check_reports_a_block_that_no_test_cites(e2e: E2eSession) -> None:
    script = e2e.cwd / "tutorial.sh"
    script.write_text((ROOT / "tutorial.sh").read_text() + "\n# one more\nmngr list --ids --sort name\n")
    result = e2e.run(f"mngr tutorial check {script} tests/docs/tutorial --format json", cwd=ROOT)
    expect(result).to_fail(1)
    (finding,) = json.loads(result.stdout)["findings"]
    assert (finding["kind"], finding["message"]) == ("gap", "no test cites this block: one-more")
