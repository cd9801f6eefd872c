"""The training loop with its updates, validation, schedule, best checkpoint and history."""

import math
import time
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor

from stcl.core.arrays import relative_error
from stcl.losses.data import Objective
from stcl.operators.surrogate import Surrogate
from stcl.runtime.graphs import Captured, by_cuda
from stcl.stages.gradient_variance import GradientVariance
from stcl.stages.optimiser import Adam, Plateau
from stcl.study.protocol import Training

LOSSES = ("data", "derivative", "gamma")

Pairs = tuple[Tensor, Tensor]  # inputs a and responses u on the training device


class Diverged(RuntimeError):
    """Training met a value that is not finite. The message says which one, and `epoch` when."""

    def __init__(self, message: str, epoch: int) -> None:
        super().__init__(message)
        self.epoch = epoch


class Trainer:
    """The training loop. It holds everything that changes during training, and saves and restores it."""

    def __init__(
        self,
        surrogate: Surrogate,
        objective: Objective,
        train: Pairs,
        val: Pairs,
        settings: Training,
        seed: int,
        jacobian_error: Callable[[Surrogate], float] | None = None,
    ) -> None:
        """`jacobian_error` measures the surrogate on validation data every `settings.jacobian_every` epochs."""
        self.surrogate, self.objective, self.settings = surrogate, objective, settings
        self.train, self.val, self.jacobian_error = train, val, jacobian_error
        self.batches = torch.Generator().manual_seed(seed)
        self.optimiser = Adam(surrogate.parameters(), settings.learning_rate, settings.adam_eps)
        self.schedule = Plateau(self.optimiser, settings.schedule)
        self.best, self.best_epoch, self.best_weights = math.inf, 0, self._weights()
        self.history: list[dict[str, Any]] = []  # a column that was not measured in an epoch is None
        self.seconds = 0.0
        self.variance = GradientVariance(list(surrogate.parameters())) if settings.gradient_variance else None
        # The measurement of variances takes new memory at every update, so it is never captured.
        capture = settings.cuda_graphs and train[0].device.type == "cuda" and self.variance is None
        self._captured = Captured(self._step, by_cuda) if capture else None

    @property
    def epoch(self) -> int:
        return len(self.history)

    @property
    def ended(self) -> Literal["budget", "early"] | None:
        """Why there is nothing left to train: all epochs were run, or no better checkpoint came at the lowest rate.

        It follows from the history alone, so a training that is resumed ends where it would have ended anyway.
        """
        if self.epoch >= self.settings.epochs:
            return "budget"
        wait = self.settings.finish_after
        if wait is None or self.epoch - self.best_epoch < wait:
            return None
        rates = [row["learning_rate"] for row in self.history[-wait:]]
        return "early" if all(self.schedule.reduced(rate) == rate for rate in rates) else None

    def run_epoch(self) -> None:
        """Makes one pass over the training set, validates, and updates schedule, best checkpoint and history."""
        start = time.perf_counter()
        row: dict[str, Any] = {"epoch": self.epoch + 1} | self._updates()
        row["learning_rate"] = self.optimiser.rate
        row["val_mse"], row["val_relative"] = self._validate()
        if self.jacobian_error is not None and self.settings.jacobian_every is not None:
            due = row["epoch"] % self.settings.jacobian_every == 0
            row["val_jacobian"] = self.jacobian_error(self.surrogate) if due else None
        self._refuse_divergence(row)
        monitored = row[f"val_{self.settings.monitor}"]
        self.schedule.step(monitored)
        if monitored < self.best:
            self.best, self.best_epoch, self.best_weights = monitored, self.epoch + 1, self._weights()
        self.seconds += time.perf_counter() - start
        self.history.append(row | {"best": self.best, "seconds": self.seconds})

    def _updates(self) -> dict[str, float]:
        """The means of losses and γ over all updates of an epoch. The device is read once, at the end."""
        a, u = self.train
        total = torch.zeros(len(LOSSES), device=a.device)
        batches = torch.randperm(len(a), generator=self.batches).split(self.settings.batch)
        for rows in batches:
            on_device = rows.to(a.device, non_blocking=True)
            total += self.update(a[on_device], u[on_device], rows)
        means = dict(zip(LOSSES, (total / len(batches)).tolist(), strict=True))
        return means | self.objective.epoch_columns() | (self.variance.finish() if self.variance else {})

    def update(self, a: Tensor, u: Tensor, rows: Tensor) -> Tensor:
        """Takes one step of the optimiser on a batch. Returns (data loss, derivative loss, γ) on the device."""
        step = self._captured or self._step
        return step(a, u, *self.objective.draw(rows))

    def _step(self, a: Tensor, u: Tensor, *drawn: Tensor) -> Tensor:
        """What an update does after its random numbers were drawn. All of it is on the device."""
        self.optimiser.zero_grad()
        losses = self.objective(self.surrogate, a, u, drawn)
        if self.variance:
            self.variance.add(losses)
        losses.total.backward()
        self.optimiser.clip(self.settings.clip)
        self.optimiser.step()
        return torch.stack([losses.data, losses.derivative, losses.gamma]).detach()

    def ledger(self) -> dict[str, int]:
        """What the objective has solved so far: nothing, or targets and corrections."""
        samples = len(self.train[0])
        return self.objective.ledger(self.epoch * samples, self.epoch * -(-samples // self.settings.batch))

    def _validate(self) -> tuple[float, float]:
        """The mean squared error over all values, and the mean relative error, of the scored responses."""
        a, u = self.val
        score = self.surrogate.layout.score
        with torch.no_grad():
            predicted = torch.cat([score(self.surrogate(part)) for part in a.split(64)])
            mse = (predicted - score(u)).square().mean()
            relative = relative_error(predicted, score(u)).mean()
        return tuple(torch.stack([mse, relative]).tolist())

    def _refuse_divergence(self, row: dict[str, float | None]) -> None:
        for term, value in row.items():
            if value is not None and not math.isfinite(value):
                epoch = self.epoch + 1
                raise Diverged(
                    f"epoch {epoch}: {term} is {value}; training diverged. Lower the learning rate or λ", epoch
                )

    def _weights(self) -> dict[str, Tensor]:
        return {name: value.detach().to("cpu", copy=True) for name, value in self.surrogate.state_dict().items()}

    def state_dict(self) -> dict[str, Any]:
        return {
            "surrogate": self._weights(),
            "optimiser": self.optimiser.state_dict(),
            "schedule": self.schedule.state_dict(),
            "objective": self.objective.state_dict(),
            "best": (self.best, self.best_epoch, self.best_weights),
            "history": self.history,
            "seconds": self.seconds,
            "batches": self.batches.get_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.surrogate.load_state_dict(state["surrogate"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.schedule.load_state_dict(state["schedule"])
        self.objective.load_state_dict(state["objective"])
        self.best, self.best_epoch, self.best_weights = state["best"]
        self.history, self.seconds = state["history"], state["seconds"]
        self.batches.set_state(state["batches"])
        if self._captured is not None:
            self._captured.forget()
