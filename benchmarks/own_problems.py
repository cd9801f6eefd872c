"""What the loss is worth for problems and models that are not ours: equal epochs and equal time.

python benchmarks/own_problems.py [problem ...] [--epochs 60] [--seeds 1]

For each of the six problems of tests/library/user_problems.py several trainings take turns, an epoch each: the loss as
`auto` sets it up, with q = 4 and three λ, and with q = 1. After each turn the training on data alone goes on until it
has used as much CPU time as the slowest of them. So all see the same machine, whatever else runs on it. Time is that of
the process, with one thread, and counts updates alone: not the choice of the form, but the inverses that are kept.

Every training keeps the weights of its best epoch on 32 validation samples, by the field error. Errors are relative, on
32 other samples: the field's is a mean over samples, the Jacobian's is ‖DS_θ[v] − w‖/‖w‖ in the norm of all samples and
4 directions together, because some tangents are next to zero. w comes from differences of the solver. It prints JSON.
"""

import argparse
import copy
import json
import sys
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import stcl

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "library"))
from user_problems import PROBLEMS, UserProblem

VARIANTS = [(4, 0.1), (4, 0.3), (4, 1.0), (1, 1.0)]  # q and λ
SAMPLES, BATCH, RATE = 64, 16, 2e-3


@dataclass
class Errors:
    """Errors in percent on validation and test samples."""

    problem: UserProblem
    seed: int

    def __post_init__(self) -> None:
        self.validation, self.test = (self.problem.data(32, seed=100 * self.seed + k) for k in (2, 3))
        self.v = self.problem.inputs(4, 100 * self.seed + 4) - self.problem.inputs(4, 100 * self.seed + 5)
        a = self.test[0].double()
        epsilon = 1e-4 * a.flatten(1).norm(dim=1).mean() / self.v.flatten(1).norm(dim=1)
        pairs = [(e, e * v.double()) for e, v in zip(epsilon, self.v, strict=True)]
        differences = [(self.problem.solve(a + dv) - self.problem.solve(a - dv)) / (2 * e) for e, dv in pairs]
        self.w = torch.stack(differences, 1).float()

    def field(self, model: nn.Module, samples: tuple[Tensor, Tensor]) -> float:
        with torch.no_grad():
            difference = (model(samples[0]) - samples[1]).flatten(1).norm(dim=1)
        return 100 * float((difference / samples[1].flatten(1).norm(dim=1)).mean())

    def of(self, model: nn.Module) -> dict[str, float]:
        with torch.no_grad():
            _, w = stcl.value_and_tangents(model, self.test[0], self.v)
        return {"field": self.field(model, self.test), "jacobian": 100 * float((w - self.w).norm() / self.w.norm())}


@dataclass
class Training:
    """One model, its CPU seconds so far, and its best weights after each epoch that was better than all before."""

    problem: UserProblem
    errors: Errors
    seed: int
    q: int = 0  # 0: data alone
    lam: float = 0.0
    seconds: float = 0.0
    epochs: int = 0
    best: list[tuple[float, int, float, dict]] = field(default_factory=list)  # seconds, epochs, error, weights

    def __post_init__(self) -> None:
        torch.manual_seed(self.seed)
        self.data, self.model = self.problem.data(SAMPLES, seed=100 * self.seed + 1), self.problem.model()
        self.optimiser = torch.optim.Adam(self.model.parameters(), RATE)
        self.tangents = stcl.TangentConsistency(self.problem.equation(), q=self.q, lam=self.lam) if self.q else None
        self.order = torch.Generator().manual_seed(self.seed)

    def epoch(self) -> None:
        a, u = self.data
        start = time.process_time()
        for rows in torch.randperm(SAMPLES, generator=self.order).split(BATCH):
            data = partial(nn.functional.mse_loss, target=u[rows])
            if self.tangents is None:
                loss = data(self.model(a[rows]))
            else:
                prediction, term = self.tangents.with_prediction(self.model, a[rows], u[rows], data)
                loss = data(prediction) + term
            self.optimiser.zero_grad()
            loss.backward()
            self.optimiser.step()
        self.seconds += time.process_time() - start
        self.epochs += 1
        error = self.errors.field(self.model, self.errors.validation)
        if not self.best or error < self.best[-1][2]:
            self.best.append((self.seconds, self.epochs, error, copy.deepcopy(self.model.state_dict())))

    def result(self, seconds: float = float("inf"), epochs: float = float("inf")) -> dict[str, float]:
        """Errors of the best weights within this time and number of epochs."""
        *_, validation, weights = [one for one in self.best if one[0] <= seconds and one[1] <= epochs][-1]
        model = self.problem.model()
        model.load_state_dict(weights)
        return {"validation": validation, **self.errors.of(model)}


def measure(name: str, epochs: int, seed: int) -> dict[str, Any]:
    problem = PROBLEMS[name]()
    errors = Errors(problem, seed)
    plain = Training(problem, errors, seed)
    ours = [Training(problem, errors, seed, q, lam) for q, lam in VARIANTS]
    for _ in range(epochs):
        for training in ours:
            training.epoch()
        while plain.seconds < max(training.seconds for training in ours) or plain.epochs < epochs:
            plain.epoch()
    cost = plain.seconds / plain.epochs
    form = ours[0].tangents.form if ours[0].tangents else None
    return {
        "problem": name,
        "seed": seed,
        "epochs": epochs,
        "form": form.name if form is not None and not isinstance(form, str) else None,
        "data": {"seconds": epochs * cost, **plain.result(epochs=epochs)},
        "stcl": [
            {
                "q": one.q,
                "lam": one.lam,
                "seconds": one.seconds,
                "updates_of_data": one.seconds / (epochs * cost),
                **one.result(),
                "data_at_equal_time": plain.result(seconds=one.seconds),
            }
            for one in ours
        ],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problems", nargs="*", default=list(PROBLEMS))
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name in options.problems:
        for seed in range(options.seeds):
            print(json.dumps(measure(name, options.epochs, seed)), flush=True)


if __name__ == "__main__":
    main()
