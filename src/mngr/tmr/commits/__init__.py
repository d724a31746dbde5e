"""Commits read, merged and written with git's plumbing alone: nothing is checked out.

Start with `trees.py`.
"""
