"""What the estimate of a small study says to people."""

from cost_study import STUDY, estimate

from stcl.reporting.cost import text


def test_what_is_not_known_is_said_and_not_guessed():
    problem = STUDY["problems"]["diffusion"]
    found = estimate(STUDY | {"problems": {"helmholtz": problem, "diffusion": problem}})
    page = text(found)
    helmholtz, total = (next(line for line in page.splitlines() if name in line) for name in ("Helmholtz ", "Total"))
    assert helmholtz.count("not known") == total.count("not known") == 2
    assert "Not known: times of Helmholtz" in page
    assert found.rows()[0]["trainings"] == 12
    assert "Longest chain of jobs: 60.2 s = data 4 s → sTCL of diffusion with N = 40 56.2 s." in page


def test_measured_times_are_named_with_their_machine():
    record = {"cells": {"diffusion/N40/fno/lam0/seed0": {"epoch_seconds": 10.0, "epochs": 5}}, "device": "a card"}
    assert "measured on a card: Nonlinear diffusion" in text(estimate(timings=[record]))


def test_the_cost_of_an_early_end_is_that_of_the_budget():
    assert "end early" not in text(estimate())
    problem = STUDY["problems"]["diffusion"]
    may_end = problem | {"training": problem["training"] | {"finish_after": 2}}
    study = STUDY | {"problems": STUDY["problems"] | {"diffusion": may_end}}
    assert "may end early (`training.finish_after`) are counted with all their epochs" in text(estimate(study))
    assert estimate(study).rows() == estimate().rows()
