from parcel import deliver


def test_steps_are_noted():
    """Whoever listens is told each step."""
    told = []
    deliver("box", listener=lambda step: told.append(step))
    assert told == ["packed", "sent"]
