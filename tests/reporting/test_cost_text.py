"""What the estimate of a small study says to people."""

from cost_study import STUDY, estimate, timing

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
    timings = timing({"fno": 10.0, "offline_di": 20.0, "stcl": 30.0})
    page = text(estimate(timings=timings))
    assert "measured on a card: Nonlinear diffusion" in page
    assert "Not used" not in page


def test_times_of_other_settings_are_named_and_not_used():
    timings = timing({"fno": 10.0, "offline_di": 20.0, "stcl": 30.0})
    page = text(estimate(STUDY | {"timing": {"epochs": 3}}, timings=timings))
    assert "measured on" not in page
    assert "Not used: measured times of Nonlinear diffusion" in page


def test_the_cost_of_an_early_end_is_that_of_the_budget():
    assert "end early" not in text(estimate())
    problem = STUDY["problems"]["diffusion"]
    may_end = problem | {"training": problem["training"] | {"finish_after": 2}}
    study = STUDY | {"problems": STUDY["problems"] | {"diffusion": may_end}}
    assert "may end early (`training.finish_after`) are counted with all their epochs" in text(estimate(study))
    assert estimate(study).rows() == estimate().rows()
