from stats import variance


def test_variance():
    assert abs(variance([1.0, 2.0, 4.0]) - 1.5555555555555556) < 1e-6
    assert abs(variance([0.1] * 10)) < 1e-6
