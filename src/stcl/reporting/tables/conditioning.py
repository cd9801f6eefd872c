"""The table `conditioning` shows what each tangent operator is like, and what its sTCL form makes of it."""

import json
from pathlib import Path
from typing import Any

from stcl.reporting.tables import command
from stcl.reporting.tables.render import Table
from stcl.study.names import problem_name

CAPTION = (
    "The loss-design rule with what was measured: the declared class of the tangent operator A and the form it leads "
    "to; symmetry defect (norm of A − Aᵀ over the norm of A), smallest and largest eigenvalue and share of negative "
    "eigenvalues of the symmetric part; condition number of AᵀA (the raw residual loss) and of AᵀMA with the form's "
    "metric M, both in the scored responses while the others are held, and of AᵀA in all unknowns; for a Krylov target "
    "the error of the solved tangent. "
    "Dense matrices on small grids, median over a few states; — where a form has no such number."
)
QUANTITIES = {
    "symmetry_defect": "Symmetry defect",
    "smallest_eigenvalue": "Smallest eigenvalue",
    "largest_eigenvalue": "Largest eigenvalue",
    "negative_fraction": "Negative share",
    "condition_scored": "κ(AᵀA)",
    "condition_metric": "κ(AᵀMA)",
    "condition_raw": "κ(AᵀA), all unknowns",
    "target_error": "Target error",
}


def build(spec: dict[str, Any], inputs: list[Path], published: dict[str, Any] | None) -> Table:
    """`inputs` are records of the stage `conditioning`, named after their problems.

    `spec["forms"]` has the form of each problem in words.
    """
    rows = []
    for path in inputs:
        record = json.loads(path.read_text())
        problem, measured = path.stem, record["quantities"]
        medians = {name: measured[name]["median"] if measured[name] else "" for name in QUANTITIES}
        form = spec["forms"][problem]
        rows.append(
            {"problem": problem, "class": record["tangent_class"], "form": form, "unknowns": record["unknowns"]}
            | medians
        )
    header = ["Problem", "Class", "Form", "Unknowns", *QUANTITIES.values()]
    body = [
        [
            problem_name(row["problem"]),
            row["class"],
            row["form"],
            str(row["unknowns"]),
            *("—" if row[name] == "" else f"{row[name]:.2g}" for name in QUANTITIES),
        ]
        for row in rows
    ]
    return Table(CAPTION, rows, header, body)


if __name__ == "__main__":
    command.main("conditioning", build)
