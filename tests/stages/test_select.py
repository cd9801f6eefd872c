"""λ by validation, against choices worked out by hand."""

import pytest

from stcl.stages.select import choose_lambda


def tuned(lam, seed, monitored, method="stcl"):
    return {"spec": {"lam": lam, "seed": seed, "method": method}, "monitored": monitored}


def test_lambda_is_chosen_by_the_mean_over_seeds():
    records = [tuned(0.5, 0, 1.0), tuned(0.5, 1, 5.0), tuned(1.0, 0, 2.0), tuned(1.0, 1, 2.0)]
    assert choose_lambda(records) == 1.0


def test_equal_lambdas_give_the_smaller_one():
    assert choose_lambda([tuned(2.0, 0, 1.0), tuned(1.0, 0, 1.0)]) == 1.0


def test_methods_that_share_a_lambda_count_alike_whatever_their_scale():
    """By the arithmetic mean the first method, a hundred times larger, would decide alone: 90 < 100."""
    records = [
        tuned(0.5, 0, 100.0, "offline_di"),
        tuned(0.5, 0, 1.0, "stcl"),
        tuned(1.0, 0, 90.0, "offline_di"),
        tuned(1.0, 0, 2.0, "stcl"),
    ]
    assert choose_lambda(records) == 0.5


def test_a_missing_seed_is_refused():
    with pytest.raises(ValueError, match="same seeds"):
        choose_lambda([tuned(0.5, 0, 1.0), tuned(0.5, 1, 1.0), tuned(1.0, 0, 1.0)])
