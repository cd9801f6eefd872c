"""The table `conditioning_ablation` shows forms of the sTCL loss with their condition numbers and their errors."""

from itertools import groupby
from math import inf
from pathlib import Path
from typing import Any

from stcl.reporting.runs import Run, records_among, runs_among
from stcl.reporting.tables import command
from stcl.reporting.tables.estimate import ERRORS, percent, shown_lambda
from stcl.reporting.tables.render import Table
from stcl.study.names import METHOD_NAMES, problem_name

CAPTION = (
    "What conditioning does: forms of the sTCL loss with the same data, network, budget and λ, from the worst "
    "conditioned to the best, between data alone and stored tangents. κ is the condition number of the loss's Hessian "
    "in the predicted tangent of the scored responses: that of AᵀA for a raw residual, of AᵀMA for a residual with the "
    "metric M, and 1 for a solved target, whose own relative error stands beside it. The second κ counts all "
    "responses; it differs where some are not scored, as the pressure of Navier-Stokes, and is singular where the loss "
    "does not see them. These numbers are medians over a few states, from dense matrices on a smaller grid; — where a "
    "row has none. Test errors in percent, mean ± sample standard deviation over training seeds."
)
MEASURED = ("condition", "condition_all", "target_error")

Number = float | str | None  # a word says why there is no number, None that there is none to have


def build(spec: dict[str, Any], inputs: list[Path], published: dict[str, Any] | None) -> Table:
    """`inputs` are runs and records of the stage `conditioning`. `spec["forms"]` has what each block's form is."""
    records = {path.stem: record for path, record in records_among(inputs).items()}
    found = [(block, method, list(members)) for (block, method), members in groupby(runs_among(inputs), _key)]
    problems = {block: form["problem"] for block, form in spec["forms"].items()}
    measured = {block: measurement(records.get(form["measured"])) for block, form in spec["forms"].items()}
    order = list(dict.fromkeys(problems.get(block, block) for block, _, _ in found))

    def place(entry: tuple[str, str, list[Run]]) -> tuple[int, int, float]:
        """References stand where the tables of errors have them. A form without a number is taken for singular."""
        block, method, _ = entry
        problem = order.index(problems.get(block, block))
        condition = measured[block][0] if method == "stcl" else None
        return problem, list(METHOD_NAMES).index(method), -(condition if isinstance(condition, float) else inf)

    rows, body = [], []
    for block, method, members in sorted(found, key=place):
        form = spec["forms"][block] if method == "stcl" else {"name": "", "form": ""}
        numbers = measured[block] if method == "stcl" else (None, None, None)
        problem, n, lam = problems.get(block, block), members[0].cell.n_train, shown_lambda(members)
        entries = {quantity: percent(members, quantity) for quantity in ERRORS}
        shared = {"problem": problem, "n_train": n, "method": method, "name": form["name"], "form": form["form"]}
        shared |= {"lambda": lam}
        shared |= {key: x if isinstance(x, float) else "" for key, x in zip(MEASURED, numbers, strict=True)}
        rows += [shared | {"quantity": quantity} | entry.columns() for quantity, entry in entries.items()]
        name = METHOD_NAMES[method] + (f", {form['form']}" if form["form"] else "")
        texts = [_text(number) for number in numbers]
        body.append([problem_name(problem), str(n), name, lam or "—", *texts, *(e.text() for e in entries.values())])
    header = ["Problem", "N", "Loss", "λ", "κ", "κ, all responses", "Target error", "Field error", "Jacobian error"]
    return Table(CAPTION, rows, header, body)


def measurement(record: dict[str, Any] | None) -> tuple[Number, Number, Number]:
    """κ of a form in the scored and in all responses and the error of a solved target. Words stand for what is not."""
    if record is None:
        return "missing", "missing", None
    form, medians = record["spec"]["form"], {k: v and v["median"] for k, v in record["quantities"].items()}
    if form["name"] in ("krylov_target", "solved_target"):
        return 1.0, 1.0, medians["target_error"]
    names = ("condition_metric", "condition_metric_all") if "metric" in form else ("condition_scored", "condition_raw")
    scored, whole = ("singular" if medians[name] is None else medians[name] for name in names)
    return scored, whole, None


def _key(run: Run) -> tuple[str, str]:
    return run.cell.block, run.cell.method


def _text(number: Number) -> str:
    if isinstance(number, float):
        return f"{number:.2g}"
    return number or "—"


if __name__ == "__main__":
    command.main("conditioning_ablation", build)
