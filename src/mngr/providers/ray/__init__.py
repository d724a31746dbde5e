"""Provider `ray`: actors on a Ray cluster.

Start with `provider.py`. `ray_calls.py` runs in the Python that has Ray, `host_actor.py` and `host_init_process.py` on the
cluster.
"""
