from geo.angle import to_radians


def test_to_radians():
    """to_radians() is accurate to 1e-9 (absolute)."""
    assert to_radians(180) == 3.141592653589793
    assert to_radians(-90) == -1.5707963267948966
    assert to_radians(0) == 0
