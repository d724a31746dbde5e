import logging

import pytest

from conveyor import Pipeline

log = logging.getLogger(__name__)


class TestPipeline:
    @pytest.fixture(autouse=True)
    def pipeline(self):
        self.p = Pipeline.from_steps("strip", "lower", "dedupe")

    def test_runs_all_steps(self):
        result = self.p.run([" A", "a ", "B"])
        assert result == ["a", "b"]
        assert self.p.stats == {"strip": 3, "lower": 3, "dedupe": 2}
