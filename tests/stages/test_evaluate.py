"""The two reported errors, against loops and finite differences written out here."""

import json

import numpy as np
import pytest
import torch
from scipy.stats import sem

from stcl import problems
from stcl.core.evaluated import measured_for
from stcl.operators.build import build_surrogate
from stcl.operators.settings import Network
from stcl.runtime import checkpoint
from stcl.stages import bank, data, evaluate
from stcl.stages.errors import field_errors, jacobian_errors
from stcl.study.config import parse
from stcl.study.plan import Plan


@pytest.fixture
def setting(float64):
    problem = problems.load("diffusion", n=13)
    surrogate = build_surrogate(problem.layout, Network(modes=4, width=8, layers=2, head=16))
    a = problem.inputs(5, "test")
    u = problem.solve(a)
    v = problem.directions(3, "test")
    return surrogate, a, u, v, problem.tangents(a, u, v)


def test_field_error_is_the_mean_of_per_sample_ratios(setting):
    surrogate, a, u, _, _ = setting
    found = field_errors(surrogate, torch.tensor(a), torch.tensor(u), batch=2).numpy()
    with torch.no_grad():
        expected = [
            np.linalg.norm(surrogate(torch.tensor(a[i : i + 1]))[0].numpy() - u[i]) / np.linalg.norm(u[i])
            for i in range(5)
        ]
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_jacobian_error_is_per_sample_and_direction(setting):
    surrogate, a, _, v, w = setting
    found = jacobian_errors(surrogate, torch.tensor(a), torch.tensor(v), torch.tensor(w), batch=2, directions=2).numpy()
    step = 1e-5
    for i in range(5):
        for k in range(3):
            with torch.no_grad():
                ahead, behind = (surrogate(torch.tensor(a[i] + s * v[k])[None])[0].numpy() for s in (step, -step))
            tangent = (ahead - behind) / (2 * step)
            expected = np.linalg.norm(tangent - w[i, k]) / np.linalg.norm(w[i, k])
            assert found[i, k] == pytest.approx(expected, rel=1e-6)


def test_cells_that_are_measured_together_keep_their_own_errors(tmp_path, monkeypatch):
    """Two networks with other weights, each against its errors by the functions above on the stored arrays."""
    settings = {
        "options": {"n": 9},
        "samples": {"train": 4, "val": 4, "test": 4},
        "train_sizes": [4],
        "bank": {"train": 2, "test": 3},
        "network": {"modes": 3, "width": 4, "layers": 2, "head": 4},
        "methods": {"fno": {}},
    }
    plan = Plan(parse({"preset": "test", "reduced": True, "seeds": [0, 1], "problems": {"diffusion": settings}}))
    split, labels = tmp_path / "test.json", tmp_path / "bank.json"
    data.generate(plan.data_spec("diffusion", "test"), split, tmp_path / "work", "", workers=1)
    bank.generate(plan.bank_spec("diffusion", "test"), split, labels, tmp_path / "work", "", workers=1)
    records, expected = [], []
    arrays = evaluate.HeldOut.read(split, labels, torch.device("cpu")).arrays
    for cell in plan.final_cells([plan.blocks["diffusion"]]):
        spec = plan.train_spec(cell)
        torch.manual_seed(cell.seed)
        surrogate = build_surrogate(problems.load("diffusion", n=9).layout, spec.network)
        records.append(tmp_path / "runs" / cell.path / "train.json")
        checkpoint.save(records[-1].with_name("weights.pt"), surrogate.state_dict())
        weights = checkpoint.digest(surrogate.state_dict())
        trained = {"spec": spec.json_dict(), "best_epoch": 3 + cell.seed, "weights": weights}
        records[-1].write_text(json.dumps(trained))
        jacobian = jacobian_errors(surrogate, arrays["a"], arrays["v"], arrays["w"])
        expected.append((field_errors(surrogate, arrays["a"], arrays["u"]).numpy(), jacobian.numpy()))
    assert not np.array_equal(expected[0][0], expected[1][0])

    monkeypatch.setattr("sys.argv", ["evaluate", "--data", str(split), "--bank", str(labels), *map(str, records)])
    evaluate.main()
    contents = {name: json.loads(path.read_text())["content"] for name, path in (("data", split), ("bank", labels))}
    for seed, (record, (field, jacobian)) in enumerate(zip(records, expected, strict=True)):
        kept = np.load(record.with_name("errors.npz"))
        assert np.array_equal(kept["field"], field)
        assert np.array_equal(kept["jacobian"], jacobian)
        means = json.loads(record.with_name("errors.json").read_text())
        assert means["field_error"] == pytest.approx(field.mean())
        assert means["jacobian_error"] == pytest.approx(jacobian.mean())
        assert means["standard_errors"]["field_error"] == pytest.approx(sem(field.astype(float)))
        assert means["standard_errors"]["jacobian_error"] == pytest.approx(sem(jacobian.astype(float).mean(axis=1)))
        assert (means["spec"]["seed"], means["best_epoch"], means["contents"]) == (seed, 3 + seed, contents)
        trained = json.loads(record.read_text())
        assert measured_for(trained, means)
        assert not measured_for(trained | {"weights": "of another training"}, means)


def test_weights_of_another_training_are_not_measured(tmp_path):
    """The record knows the hash of its own; weights of the same shapes are not taken for them."""
    layout = problems.load("diffusion", n=9).layout
    own, other = (build_surrogate(layout, Network(modes=3, width=4, layers=2, head=4)).state_dict() for _ in range(2))
    checkpoint.save(tmp_path / "weights.pt", own)
    record = {"weights": checkpoint.digest(own)}
    kept = checkpoint.load_weights(tmp_path / "weights.pt", record)
    assert all(torch.equal(kept[name], own[name]) for name in own)
    checkpoint.save(tmp_path / "weights.pt", other)
    with pytest.raises(ValueError, match=r"weights\.pt is not what train\.json describes"):
        checkpoint.load_weights(tmp_path / "weights.pt", record)
    assert checkpoint.load_weights(tmp_path / "weights.pt", {}).keys() == other.keys()  # of an older version
