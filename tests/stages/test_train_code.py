"""The code that a training depends on: its own method, form, metric and solver, and no others."""

from test_train import config

from stcl.runtime import provenance
from stcl.study import modules
from stcl.study.config import parse
from stcl.study.plan import Plan


def test_a_cell_depends_on_its_own_form_and_metric_only(monkeypatch):
    changed = config()
    changed["problems"]["diffusion"]["methods"]["stcl"]["form"] = {
        "name": "krylov_target",
        "metric": {"name": "inverse_laplacian"},
    }
    plan = Plan(parse(changed))
    parse_module = provenance._parse.__wrapped__

    def reached_by(name: str, method: str) -> set[str]:
        reached = set()
        monkeypatch.setattr(provenance, "_parse", lambda module: (reached.add(module), parse_module(module))[1])
        provenance.code_id.cache_clear()
        cell = next(c for c in plan.final_cells([plan.blocks[name]]) if c.method == method)
        provenance.code_id(*modules.of_train(plan, cell))
        return {m for m in reached if m.startswith(("stcl.losses.", "stcl.tangent."))}

    shared = {"stcl.losses.data", "stcl.losses.flat_gradient"}
    assert reached_by("diffusion", "fno") == shared
    offline = reached_by("diffusion", "offline_di")
    assert offline == shared | {
        f"stcl.losses.{m}" for m in ("derivative_informed", "settings", "stored_tangents", "weighting")
    }
    krylov, navier_stokes, burgers = (reached_by(n, "stcl") for n in ("diffusion", "navier_stokes", "burgers"))
    assert {"stcl.tangent.krylov", "stcl.losses.metrics.inverse_laplacian"} <= krylov
    assert {"stcl.losses.metrics.leray_oseen"} <= navier_stokes
    assert not any("metrics" in m or "krylov" in m for m in burgers)
    own = {m for m in krylov | navier_stokes | burgers if m.count(".") == 3 and "._" not in m}
    assert all(sum(m in cell for cell in (krylov, navier_stokes, burgers)) == 1 for m in own)


def test_a_cell_with_a_solved_target_depends_on_its_solver_and_the_solvers_metric():
    changed = config()
    form = {"name": "solved_target", "solver": {"name": "krylov", "metric": {"name": "inverse_laplacian"}}}
    changed["problems"]["diffusion"]["methods"]["stcl"]["form"] = form
    plan = Plan(parse(changed))
    cell = next(c for c in plan.final_cells([plan.blocks["diffusion"]]) if c.method == "stcl")
    assert {f"stcl.losses.{m}" for m in ("forms.solved_target", "solvers.krylov", "metrics.inverse_laplacian")} <= set(
        modules.of_train(plan, cell)
    )


def test_only_cells_with_unlabelled_inputs_depend_on_their_code():
    changed = config()
    changed["problems"]["burgers"]["methods"]["stcl"]["inputs"] = "both"
    plan = Plan(parse(changed))
    cells = [c for name in ("burgers", "diffusion") for c in plan.final_cells([plan.blocks[name]])]
    own = {(c.block, c.method) for c in cells if "stcl.losses.beyond_labels" in modules.of_train(plan, c)}
    assert own == {("burgers", "stcl")}
