from parcel import deliver


def test_steps_are_told():
    """Whoever listens is told each step."""
    told = []

    def listener(step):
        told.append(step)

    assert deliver("box", listener=listener) == "delivered"
    assert told == ["packed", "sent"]
