"""λ by validation, against choices worked out by hand."""

import json
import sys

import pytest

from stcl.stages import select
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


def failed(lam, seed, epoch, method="stcl"):
    return tuned(lam, seed, None, method) | {"ended": "diverged", "diverged": epoch}


def test_a_lambda_that_diverged_with_any_seed_or_method_is_not_chosen():
    """That of the lowest error has diverged with another seed, the next one with another method."""
    assert choose_lambda([tuned(0.5, 0, 0.1), failed(0.5, 1, 7), tuned(1.0, 0, 2.0), tuned(1.0, 1, 3.0)]) == 1.0
    zero = [tuned(0.5, 0, 0.0, "offline_di"), failed(0.5, 0, 3), tuned(1.0, 0, 2.0, "offline_di"), tuned(1.0, 0, 2.0)]
    assert choose_lambda(zero) == 1.0


def test_a_grid_that_diverged_altogether_is_refused():
    with pytest.raises(
        ValueError, match=r"every λ .*: λ = 0\.5, stcl, seed 0, in epoch 2; λ = 1e\+30, .* in epoch 1\."
    ):
        choose_lambda([failed(0.5, 0, 2), failed(1e30, 0, 1)])


def decided(folder, monkeypatch, records):
    """What the stage leaves of these records."""
    files = [folder / f"{i}.json" for i in range(len(records))]
    for file, record in zip(files, records, strict=True):
        file.write_text(json.dumps(record))
    monkeypatch.setattr(sys, "argv", ["select", "--out", str(folder / "decision.json"), *map(str, files)])
    select.main()
    return json.loads((folder / "decision.json").read_text())


def test_the_decision_says_what_diverged(tmp_path, monkeypatch, capsys):
    assert decided(tmp_path, monkeypatch, [tuned(0.5, 0, 1.0), tuned(2.0, 0, 3.0)]) == {"lam": 0.5}
    found = decided(tmp_path, monkeypatch, [failed(0.5, 0, 4), tuned(2.0, 0, 3.0)])
    assert found == {"lam": 2.0, "diverged": [{"lam": 0.5, "method": "stcl", "seed": 0, "epoch": 4}]}
    assert capsys.readouterr().out.endswith("diverged: λ = 0.5, stcl, seed 0, in epoch 4\nchosen: λ = 2\n")
    with pytest.raises(SystemExit, match="error: every λ of the grid diverged"):
        decided(tmp_path, monkeypatch, [failed(0.5, 0, 4), failed(2.0, 0, 1)])


def test_a_missing_seed_is_refused():
    with pytest.raises(ValueError, match="same seeds"):
        choose_lambda([tuned(0.5, 0, 1.0), tuned(0.5, 1, 1.0), tuned(1.0, 0, 1.0)])
