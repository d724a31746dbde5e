import pytest

from webroute import resolve


class TestRedirects:
    @pytest.mark.parametrize(
        "path, target",
        [("/old", "/new"), ("/old/", "/new"), ("/Old", None), ("/older", None)],
    )
    def test_target(self, path, target):
        match = resolve(path)
        assert (
            match.redirect == target,
            f"{path} redirects to {match.redirect}, wanted {target}",
        )
        assert (
            match.permanent is (target is not None),
            f"{path} has the wrong permanence",
        )
