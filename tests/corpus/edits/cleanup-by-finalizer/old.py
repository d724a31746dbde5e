from vault import Vault


def test_key_is_kept():
    """A key is kept."""
    vault = Vault.create("test")
    try:
        vault.put("k", "v")
        assert vault.get("k") == "v"
    finally:
        vault.destroy()
