"""Finds how a project is set up and how its tests run, and writes that to its settings.

Start with `init.py`. Each other module reads one sort of evidence: build tools, requirements, task runners, tests.
"""
