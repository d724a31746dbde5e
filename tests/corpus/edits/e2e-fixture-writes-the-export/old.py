from __future__ import annotations

import pytest

from mngr.e2e import E2eSession, expect


@pytest.fixture
def contacts(e2e: E2eSession) -> E2eSession:
    expect(e2e.run("contacts add Ann --mail ann@example.org")).to_succeed()
    expect(e2e.run("contacts add Bob --mail bob@example.org")).to_succeed()
    return e2e


def test_export(contacts: E2eSession) -> None:
    e2e = contacts
    e2e.write_tutorial_block("""
    # all contacts as a spreadsheet
    contacts export all.csv
    """)
    expect(e2e.run("contacts export all.csv")).to_succeed()
    expect(e2e.cwd).to_match_tree({"all.csv": "name,mail\nAnn,ann@example.org\nBob,bob@example.org\n"})
