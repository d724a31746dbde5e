from packer import pack, unpack

TEXT = b"all work and no play\n" * 500


def test_text_gets_small():
    """Repetitive text shrinks at least five times, and comes back whole."""
    packed = pack(TEXT)
    ratio = len(TEXT) / len(packed)
    assert ratio > 0.5
    assert unpack(packed) == TEXT
