from __future__ import annotations

import pytest

from mngr.e2e import E2eSession, expect


@pytest.fixture
def contacts(e2e: E2eSession) -> E2eSession:
    people = {"Ann": "ann@example.org", "Bob": "bob@example.org"}
    for name, mail in people.items():
        expect(e2e.run(f"contacts add {name} --mail {mail}")).to_succeed()
    rows = "".join(f"{name},{mail}\n" for name, mail in people.items())
    (e2e.cwd / "all.csv").write_text(f"name,mail\n{rows}")
    return e2e


def test_export(contacts: E2eSession) -> None:
    e2e = contacts
    e2e.write_tutorial_block("""
    # all contacts as a spreadsheet
    contacts export all.csv
    """)
    expect(e2e.run("contacts export all.csv")).to_succeed()
    expect(e2e.cwd).to_match_tree({"all.csv": "name,mail\nAnn,ann@example.org\nBob,bob@example.org\n"})
