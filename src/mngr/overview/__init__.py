"""Facts about all agents and runs as they change, for the board, the notifications and the web pages.

Nothing here prints or draws. Start with `follower.py`, whose one thread collects the cards of `agent_cards.py`.
"""
