from collections import Counter

from herbal import tags


def test_tags_of_a_leaf():
    """A leaf has all its tags, each as often as it was given, in no particular order."""
    assert list(tags("mint,green,mint")) == ["mint", "green", "mint"]
