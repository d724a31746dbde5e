"""The page with all agents and the page of one agent.

Start with `agent_pages.py`. The two streams send what changes.
"""
