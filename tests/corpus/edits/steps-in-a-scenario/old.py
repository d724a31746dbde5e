from mngr.e2e import E2eSession, expect


def test_life_of_a_list(e2e: E2eSession) -> None:
    """Things are added and removed."""
    expect(e2e.run("list add milk")).to_succeed()
    expect(e2e.run("list show").stdout).to_equal("milk\n")
    expect(e2e.run("list drop milk")).to_succeed()
    expect(e2e.run("list show").stdout).to_equal("")
