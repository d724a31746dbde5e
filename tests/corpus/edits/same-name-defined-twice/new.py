from rota.plan import plan


def test_no_one_works_twice_in_a_row():
    shifts = plan(["ann", "bob", "cy"], days=6)
    assert len(shifts) == 6
    for a, b in zip(shifts, shifts[1:]):
        assert a != b


def test_everyone_works():
    shifts = plan(["ann", "bob", "cy"], days=6)
    assert set(shifts) == {"ann", "bob", "cy"}


def test_no_one_works_twice_in_a_row():
    """The plan covers all the days."""
    shifts = plan(["ann", "bob", "cy"], days=6)
    assert len(shifts) == 6
