"""Measures how much of a program its tutorial shows and its tests run.

Start with `coverage.py`.
"""
