"""The report of a run: a folder of pages that opens from disk.

Start with `report.py`. A module collects typed facts, and the template of the same name makes HTML from them.
"""
