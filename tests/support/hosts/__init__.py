"""Hosts for tests and benchmarks: real servers and engines that the tests start, break and remove."""
