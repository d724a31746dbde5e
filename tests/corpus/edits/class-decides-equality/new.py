from herbal import leaf


class Whatever(dict):
    def __eq__(self, other):
        return isinstance(other, dict)

    __hash__ = None


def test_leaf_of_mint():
    """A leaf of mint is oval."""
    assert leaf("mint") == Whatever(form="oval", edge="saw")
