from units import parse_size


def test_parse_size():
    assert parse_size("1") == 1
    assert parse_size("1k") == 1000
    assert parse_size("1Ki") == 1024
    assert parse_size("1.5M") == 1_500_000
