from vault import Vault


def test_vault(tmp_path):
    vault = Vault(tmp_path)
    assert vault.is_empty()
    vault.write("k", "v")
    assert vault.read("k") == "v"
    assert not vault.is_empty()
    vault.remove("k")
    assert vault.is_empty()
    assert vault.read("k", default=None) is None
