from mngr.e2e import E2eSession, expect

STEPS = (
    ("list add milk", None),
    ("list show", "milk\n"),
    ("list drop milk", None),
    ("list show", ""),
)


def test_life_of_a_list(e2e: E2eSession) -> None:
    """Things are added and removed."""
    for command, shown in STEPS:
        result = e2e.run(command)
        expect(result).to_succeed()
        if shown is not None:
            expect(result.stdout).to_equal(shown)
