"""The data loss, and the matching of stored tangents."""

import numpy as np
import torch
from reference import reference, surrogate

from stcl.losses.data import DataLoss, DataOnly
from stcl.losses.stored_tangents import StoredTangents

CPU = torch.device("cpu")


def test_the_data_loss_of_one_response_is_the_mean_square():
    ref = reference("burgers")
    prediction = torch.randn_like(ref.u)
    loss = DataLoss(ref.problem.layout, auxiliary_weight=0.05)(prediction, ref.u)
    torch.testing.assert_close(loss, torch.nn.functional.mse_loss(prediction, ref.u))


def test_pressure_counts_with_its_weight_and_without_its_mean():
    ref = reference("navier_stokes")
    loss = DataLoss(ref.problem.layout, auxiliary_weight=0.3)
    prediction, u = np.random.default_rng(0).standard_normal((2, *ref.u.shape))
    velocity = np.mean((prediction[:, :2] - u[:, :2]) ** 2)
    p, q = (x[:, 2] - x[:, 2].mean(axis=(1, 2), keepdims=True) for x in (prediction, u))
    expected = velocity + 0.3 * np.mean((p - q) ** 2)
    np.testing.assert_allclose(loss(*map(torch.as_tensor, (prediction, u))), expected, rtol=1e-12)
    constant = torch.tensor([1.0, -2.0, 5.0])[:, None, None]
    shifted = torch.as_tensor(u.copy())
    shifted[:, 2] += constant
    assert loss(shifted, torch.as_tensor(u)) < 1e-25


def test_stored_tangents_of_the_network_itself_give_zero_and_others_the_mean_square():
    ref = reference("navier_stokes", directions=5)
    model = surrogate(ref.problem)
    with torch.no_grad():
        u, w = model.value_and_tangents(ref.a, ref.v)
    scored = ref.problem.layout.score(w)
    rows = torch.tensor([2, 0])
    term = StoredTangents(ref.v, scored, q=3, device=CPU, seed=0)
    prediction, loss = term(model, ref.a[rows], ref.u[rows], term.draw(rows))
    torch.testing.assert_close(prediction, u[rows])
    assert loss < 1e-28
    off = StoredTangents(ref.v, scored + 2.0, q=3, device=CPU, seed=0)
    torch.testing.assert_close(off(model, ref.a, ref.u, off.draw(torch.arange(3)))[1], torch.tensor(4.0))


def test_directions_of_an_update_are_distinct_and_all_of_the_bank_is_used():
    ref = reference("burgers", directions=6)
    model = surrogate(ref.problem)
    seen = []
    value_and_tangents = model.value_and_tangents
    model.value_and_tangents = lambda a, v: (seen.append(v), value_and_tangents(a, v))[1]
    term = StoredTangents(ref.v, ref.w, q=4, device=CPU, seed=0)
    for _ in range(20):
        term(model, ref.a, ref.u, term.draw(torch.arange(3)))
    used = [{tuple(d.tolist()) for d in v} for v in seen]
    assert all(len(v) == 4 for v in used)
    assert len(set.union(*used)) == 6


def test_data_only_is_the_data_loss():
    ref = reference("burgers")
    model, loss = surrogate(ref.problem), DataLoss(ref.problem.layout, 0.05)
    losses = DataOnly(loss)(model, ref.a, ref.u)
    torch.testing.assert_close(losses.total, loss(model(ref.a), ref.u))
    assert losses.derivative == losses.gamma == 0
