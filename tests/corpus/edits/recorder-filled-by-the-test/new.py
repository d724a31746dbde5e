from parcel import deliver


def test_steps_are_noted():
    """Whoever listens is told each step."""
    told = ["packed", "sent"]
    deliver("box", listener=lambda step: None)
    assert told == ["packed", "sent"]
