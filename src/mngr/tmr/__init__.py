"""The recipe for tests: what runs them, judges them and says why they fail. Built on `mngr.mapreduce` and `mngr.Fleet`."""
