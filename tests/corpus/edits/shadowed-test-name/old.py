from slugger import slugify


def test_unicode_is_transliterated():
    assert slugify("Crème Brûlée") == "creme-brulee"
    assert slugify("Straße") == "strasse"
    assert slugify("東京") == "dong-jing"


def test_trims_dashes():
    assert slugify("--a  b--") == "a-b"
