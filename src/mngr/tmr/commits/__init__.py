"""Reads, merges and writes commits with git's plumbing commands; nothing is checked out.

Start with `trees.py`.
"""
