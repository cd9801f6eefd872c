"""A study on paper: its configuration, its cells, the specs of its jobs, what it will cost. Imports no torch."""
