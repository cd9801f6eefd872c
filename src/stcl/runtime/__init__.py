"""What jobs run on: stores, checkpoints, devices, processes, progress, signals, the identity of code."""
