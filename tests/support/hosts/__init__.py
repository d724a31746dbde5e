"""Hosts for tests and benchmarks: real servers and engines that we start, break and take away again."""
