from lockstep import fingerprint

MANIFEST = {"name": "demo", "deps": ["a>=1", "b<3"], "python": "3.11"}


def test_fingerprint_is_stable_across_releases():
    """The digest is stored in lock files; changing it invalidates them."""
    assert fingerprint(MANIFEST) == "9f1c0be2d3a85d6e"


def test_fingerprint_ignores_key_order():
    assert fingerprint(dict(reversed(MANIFEST.items()))) == fingerprint(MANIFEST)
