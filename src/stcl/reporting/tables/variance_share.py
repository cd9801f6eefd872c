"""This module holds the rule for q: how much of the gradient's variance comes from the weighted sTCL term.

A larger q acts on this part alone, so the share says whether one is worth its time.
"""

from statistics import fmean

from stcl.reporting.runs import Run, epochs_between

SUBSTANTIAL = 25.0  # percent; the paper gives no number, and a quarter of the variance is an eighth of the noise


def mean_variance(run: Run, part: str, first_epoch: int) -> float:
    """The mean variance of a part of the gradient over the epochs from `first_epoch` to the end of the budget.

    The variance falls during a training, so a mean over fewer epochs would be a larger number. Each epoch that a
    training left out by ending early has the mean of those that it waited, all of them at the lowest learning rate.
    """
    history = run.history()
    last = int(history[-1]["epoch"])
    mean, counted = _mean(history, f"variance_{part}", first_epoch, last)
    if not run.ended_early:
        return mean
    training = run.record["spec"]["training"]
    settled, _ = _mean(history, f"variance_{part}", last - training["finish_after"] + 1, last)
    left_out = training["epochs"] + 1 - max(first_epoch, last + 1)
    return fmean((mean, settled), (counted, left_out))


def _mean(history: list[dict[str, float]], column: str, first: int, last: int) -> tuple[float, float]:
    """The mean of a column over the epochs from `first` to `last`, and how many these are."""
    weights = [epochs_between(row, first, last) for row in history]
    known = [(row[column], weight) for row, weight in zip(history, weights, strict=True) if weight]
    if not known:
        return 0.0, 0.0
    return fmean(*zip(*known, strict=True)), sum(weights)


def variance_share(weighted: float | None, total: float | None) -> float | None:
    """The weighted variance in percent of the total. Both are means over seeds, as in the paper."""
    return 100 * weighted / total if weighted is not None and total else None


def rule_for_q(shares: dict[tuple[int, int], float], published: list[float]) -> str:
    """What the shares of each (grid, q) say by the paper's rule. `published` are the paper's shares, if shown."""
    words = (
        "Share: the weighted variance in percent of the total one, both means over seeds. The paper's rule for q is to "
        "start small, and to increase q only when this share is substantial or the validation error depends on q, "
        "because a larger q acts on this part alone."
    )
    if not shares:
        return f"{words} No share has been measured."
    words += f" Measured for q of at least 1: {_range(list(shares.values()))} %"
    words += f" (published: {_range(published)} %)." if published else "."
    high = [f"{grid}² with q = {q}" for (grid, q), share in shares.items() if share >= SUBSTANTIAL]
    if high:
        words += f" A quarter or more is substantial here: the rule says to try a larger q for {', '.join(high)}."
    else:
        words += " This is less than a quarter everywhere, which is not substantial: the rule asks for no larger q."
    return f"{words} The paper names no limit; the quarter is ours."


def _range(values: list[float]) -> str:
    low, high = f"{min(values):.1f}", f"{max(values):.1f}"
    return low if low == high else f"{low} to {high}"
