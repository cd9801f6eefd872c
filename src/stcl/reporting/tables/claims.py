"""The table `claims` holds what the paper claims against what one's own runs say.

The published value of a claim and ours are computed by the same function from the same kind of numbers. The claims
themselves are in `claim_list`.
"""

from math import isnan
from pathlib import Path
from typing import Any

from stcl.reporting.tables import command
from stcl.reporting.tables.claim_list import CLAIMS
from stcl.reporting.tables.claim_rules import Claim, Values
from stcl.reporting.tables.evidence import Evidence, own_evidence, published_evidence
from stcl.reporting.tables.render import REDUCED, Table
from stcl.study.names import problem_name

CAPTION = (
    "What the paper claims, against this study. Published: computed from the paper's tables. Ours: computed in the "
    "same way from the runs of this study, with means over training seeds. A claim without a number in the paper, such "
    "as a substantial reduction, has a limit that is ours; the column Holds if names it. A claim is not run as long as "
    "one of its cells is missing or not finite; ours is then what the others give. Cells: how many were used, each "
    "with all its seeds; their names are in the CSV."
)
REDUCED_CELLS = (
    "The cells of this study are reduced, and the published values are of the full size: the smallest and the largest "
    "N, grid, q and m stand for those of the paper. A claim about several problems or cells is judged by those that "
    "this study has, and the others do not count as missing."
)
HEADER = ["About", "Claim", "Published", "Ours", "Verdict", "Holds if", "Cells"]
SHOWN = ("about", "claim", "published", "ours", "verdict", "holds_if")


def build(spec: dict[str, Any], inputs: list[Path], published: dict[str, Any] | None) -> Table:
    """`inputs` are runs and records of timing.

    `spec` has whether the study is reduced, the grid and q or the steps of each block of an ablation in `variants`, and
    first_epoch and runtime_grid where there is a study of the sketch count.
    """
    theirs = published_evidence(published or {})
    ours = own_evidence(spec, inputs, theirs)
    rows = [_row(claim, theirs.fresh(), ours.fresh()) for claim in CLAIMS]
    body = [[*(str(row[name]) for name in SHOWN), _counts(row)] for row in rows]
    unfounded = [row["claim"] for row in rows if row["published_verdict"] == "does not hold"]
    caption = CAPTION
    if unfounded:
        caption += f" By these limits the paper's own tables do not bear out: {'; '.join(unfounded)}."
    for name, problem in spec["stands_for"].items():
        caption += f" {problem_name(name)} stands for {problem_name(problem)}."
    shown = {name[1] for name in ours.sources if name[0] == "field_error"}
    for problem, how in (published or {}).get("made_with", {}).items():
        if problem in shown and problem not in spec["stands_for"].values():
            caption += f" The published numbers of {problem_name(problem)} were made with {how}, ours were not."
    if spec["reduced"]:
        caption += f" {REDUCED_CELLS} {REDUCED}"
    return Table(caption, rows, HEADER, body, paragraphs=(1, 2, 3, 5))


def _row(claim: Claim, theirs: Evidence, ours: Evidence) -> dict[str, Any]:
    published, own = claim.measure(theirs), claim.measure(ours)
    return {
        "name": claim.name,
        "about": claim.about,
        "claim": claim.words,
        "published": claim.text(published) or "—",
        "ours": claim.text(own) or "—",
        "verdict": _verdict(claim, ours, own, published),
        "holds_if": claim.criterion.words,
        "published_verdict": _verdict(claim, theirs, published, published),
        "published_values": _listed(published),
        "our_values": _listed(own),
        "cells": " ".join(ours.used),
        "not_run": "; ".join(ours.absent),
    }


def _verdict(claim: Claim, evidence: Evidence, values: Values, published: Values) -> str:
    if evidence.absent or not (values and published) or any(map(isnan, [*values.values(), *published.values()])):
        return "not run"
    return "holds" if claim.criterion.holds(values, published) else "does not hold"


def _listed(values: Values) -> str:
    return "; ".join(f"{label} = {value:.6g}" for label, value in values.items() if not isnan(value))


def _counts(row: dict[str, Any]) -> str:
    used, absent = len(row["cells"].split()), len([part for part in row["not_run"].split("; ") if part])
    return f"{used}" + (f", {absent} not run" if absent else "")


if __name__ == "__main__":
    command.main("claims", build)
