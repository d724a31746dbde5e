"""Everything before an agent is created: tests, baseline, root causes, history of earlier runs, prompts.

Start with `prepare.py`.
"""
