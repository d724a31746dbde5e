from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_names_are_lower_case(e2e: E2eSession) -> None:
    """Names are kept in lower case."""
    expect(e2e.run("pantry init && pantry add RICE && pantry add Jam")).to_succeed()
    result = e2e.run("pantry list --names")
    expect(result).to_succeed()
    names = result.stdout.split()
    assert len(names) == 2
    assert (name == name.lower() for name in names)
