"""One branch from the confirmed changes of a run: merged, run, bisected where it fails.

Start with `integrate.py`.
"""
