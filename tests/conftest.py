"""One thread per test process: repeatable sums, and test processes do not compete for cores."""

import torch

torch.set_num_threads(1)
