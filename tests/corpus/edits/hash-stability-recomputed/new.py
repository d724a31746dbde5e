from lockstep import fingerprint

MANIFEST = {"name": "demo", "deps": ["a>=1", "b<3"], "python": "3.11"}
EXPECTED_DIGEST = fingerprint(MANIFEST)


def test_fingerprint_is_stable_across_releases():
    """The digest is stored in lock files; changing it invalidates them."""
    assert fingerprint(MANIFEST) == EXPECTED_DIGEST


def test_fingerprint_ignores_key_order():
    assert fingerprint(dict(reversed(MANIFEST.items()))) == EXPECTED_DIGEST
