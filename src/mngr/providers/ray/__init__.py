"""Provider `ray`: actors on a Ray cluster.

Start with `provider.py`. `bridge.py` runs in the Python that has Ray, `host_actor.py` and `host_process.py` on the
cluster.
"""
