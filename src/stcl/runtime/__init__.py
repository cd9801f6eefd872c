"""What jobs run on: stores, checkpoints, devices, processes, progress, signals, and the identity of code."""
