"""Creates, shares, bills, recovers and releases the hosts of a run.

Start with `pool.py`.
"""
