"""What an edit of the code reruns, by real dry runs whose planned jobs are counted."""

import pytest
from plans import DIFFUSION, DRAWN_WITH_SKETCH, EVERYTHING, RETRAINED

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
            {k: v for k, v in EVERYTHING.items() if k not in ("dataset", "bank", "conditioning", "inverse_reference")}
            | {"table": 12},
        ),
        (
            "src/stcl/losses/metrics/inverse_laplacian.py",
            RETRAINED | DRAWN_WITH_SKETCH | {"train": 3 + 2 + 1, "evaluate": 1 + 2 + 1, "conditioning": 1, "table": 10},
        ),
        ("src/stcl/reporting/figures/samples.py", {"figure": 5}),
        ("src/stcl/reporting/figures/style.py", {"figure": 11}),
        ("src/stcl/reporting/tables/errors.py", {"table": 2, "figure": 1}),
        ("src/stcl/reporting/tables/claim_list.py", {"table": 1}),
        ("src/stcl/reporting/tables/wallclock.py", {"table": 1, "figure": 1}),
        ("src/stcl/reporting/tables/conditioning_ablation.py", {"table": 1, "figure": 1}),
        ("src/stcl/stages/conditioning.py", {"conditioning": 3, "table": 2, "figure": 1}),
        ("src/stcl/stages/inversion.py", {"inverse_reference": 1, "inverse": 1, "table": 1, "figure": 1}),
        ("src/stcl/stages/delayed_acceptance.py", {"inverse": 1, "table": 1, "figure": 1}),
        ("src/stcl/stages/timing.py", {"timing": 7, "table": 4, "figure": 2}),
        ("src/stcl/reporting/report/page.py", {}),
        ("src/stcl/reporting/captions.py", {}),
    ],
)
def test_an_edit_of_the_code(built, path, expected):
    planned = built.planned_after_edit(path, lambda source: source + "\nCHANGED = True\n")
    assert planned == expected | {"report": 1}


PLANS = ["study/plan.py", "reporting/tables/plan.py", "reporting/figures/plan.py"]
SHOWN = ["reporting/jobs.py", "reporting/logs.py", "reporting/status.py", "reporting/terminal.py"]


@pytest.mark.parametrize("path", [*PLANS, *SHOWN])
def test_an_edit_of_a_plan_or_of_what_is_shown_of_a_run_reruns_nothing(built, path):
    assert built.planned_after_edit(f"src/stcl/{path}", lambda source: source + "\nCHANGED = True\n") == {}


def test_a_new_public_name_reruns_nothing(built):
    def edit(source):
        return source.replace('("TangentConsistency",)', '("TangentConsistency", "settle")')

    assert built.planned_after_edit("src/stcl/__init__.py", edit) == {}


def test_an_edited_caption_reruns_the_report_alone(built):
    def edit(source):
        return source.replace("Accuracy against everything that it cost", "Accuracy against its cost")

    assert built.planned_after_edit("src/stcl/reporting/captions.py", edit) == {"report": 1}
