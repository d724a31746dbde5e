"""The hosts that a run creates, shares, pays for, recovers and releases.

Start with `pool.py`.
"""
