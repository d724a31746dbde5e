from chrono.duration import parse_duration


def test_parse_duration():
    assert parse_duration("10s") == 10
    assert parse_duration("2m") == 120
    assert parse_duration("1h") == 3600
    assert parse_duration("1h30m") == 5400
