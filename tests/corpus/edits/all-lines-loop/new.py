from units import parse_size


def test_parse_size():
    cases = {"1": 1, "1k": 1000, "1Ki": 1024, "1.5M": 1_500_000}
    for text, expected in cases.items():
        assert parse_size(text) == expected, text
