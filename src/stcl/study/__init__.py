"""A study before anything runs: its configuration, its cells, the specs of its jobs, and what it will cost.

No module of this room imports torch.
"""
