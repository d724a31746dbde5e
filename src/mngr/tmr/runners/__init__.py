"""Test runners: how mngr collects and runs a project's tests in a clean room, and how it reads their results.

Start with `protocol.py`. `pytest/` is the first runner. Nothing above this folder knows which runner a project uses.
"""
