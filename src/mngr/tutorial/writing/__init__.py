"""Agents that write what a tutorial or its tests lack.

Start with `sync.py`.
"""
