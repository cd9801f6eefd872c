"""What an edit of the code reruns, by real dry runs whose planned jobs are counted."""

import pytest
from plans import DIFFUSION, DRAWN, EVERYTHING, RETRAINED, SKETCH

pytestmark = pytest.mark.workflow


def test_comments_and_docstrings_rerun_nothing(built):
    for path in ("src/stcl/stages/train.py", "src/stcl/problems/diffusion.py", "src/stcl/reporting/figures/samples.py"):
        assert built.planned_after_edit(path, lambda s: s.replace('"""', '"""Once more: ', 1) + "\n# a remark\n") == {}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("src/stcl/problems/diffusion.py", DIFFUSION),
        (
            "src/stcl/operators/fno.py",
            {k: v for k, v in EVERYTHING.items() if k not in ("dataset", "bank", "conditioning")} | {"table": 9},
        ),
        (
            "src/stcl/losses/metrics/inverse_laplacian.py",
            RETRAINED | DRAWN | SKETCH | {"train": 3 + 2 + 1, "evaluate": 1 + 2 + 1, "conditioning": 1, "table": 9},
        ),
        ("src/stcl/reporting/figures/samples.py", {"samples": 5}),
        ("src/stcl/reporting/figures/style.py", DRAWN | SKETCH | {"samples": 5}),
        ("src/stcl/reporting/tables/errors.py", {"table": 2, "ledger": 1}),
        ("src/stcl/reporting/tables/wallclock.py", {"table": 1, "ledger": 1}),
        ("src/stcl/stages/timing.py", {"timing": 7, "table": 3, "ledger": 1} | SKETCH),
        ("src/stcl/reporting/report/page.py", {}),
    ],
)
def test_an_edit_of_the_code(built, path, expected):
    planned = built.planned_after_edit(path, lambda source: source + "\nCHANGED = True\n")
    assert planned == expected | {"report": 1}


def test_an_edit_of_the_plan_alone_reruns_nothing(built):
    assert built.planned_after_edit("src/stcl/study/plan.py", lambda source: source + "\nCHANGED = True\n") == {}
