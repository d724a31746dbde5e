from vault import Vault


def test_key_is_kept(request):
    """A key is kept."""
    vault = Vault.create("test")
    request.addfinalizer(vault.destroy)
    vault.put("k", "v")
    assert vault.get("k") == "v"
