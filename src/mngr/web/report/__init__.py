"""The report of a run: a folder of pages that opens from disk.

Start with `report.py`.
"""
