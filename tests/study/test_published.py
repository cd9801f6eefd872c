"""Spot checks of the paper's numbers, one or more per table, read off the paper by hand."""

from pathlib import Path

import pytest
import yaml

PUBLISHED = yaml.safe_load((Path(__file__).parents[2] / "config/published.yaml").read_text())


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("field_error/helmholtz/128/fno", [7.95, 0.54]),
        ("field_error/helmholtz/1024/offline_di", [1.83, 0.75]),
        ("field_error/burgers/32/fno", [17.75, 3.10]),
        ("field_error/navier_stokes/2048/stcl", [0.198, 0.042]),
        ("jacobian_error/burgers/512/offline_di", [178.08, 15.45]),
        ("jacobian_error/diffusion/1024/stcl", [6.07, 0.05]),
        ("jacobian_error/allen_cahn/512/fno", [15.64, 1.22]),
        ("wallclock/navier_stokes/stcl", 9990),
        ("wallclock/allen_cahn/fno", 291),
        ("minres_iterations/3/jacobian_error", [15.52, 1.56]),
        ("minres_iterations/25/seconds", 4216),
        ("per_cell_settings/helmholtz/stcl/1024", 0.7),
        ("per_cell_settings/navier_stokes/offline_di/1024", 1.0),
        ("sketch_resolution/32/4/field_error", [4.18, 0.34]),
        ("sketch_resolution/128/32/jacobian_error", [19.69, 0.03]),
        ("sketch_runtime/32", 54.61),
        ("gradient_variance/64/4/weighted", [1.756e-7, 1.07e-7]),
        ("gradient_variance/32/0/total", [8.71e-7, 1.52e-7]),
    ],
)
def test_the_number_of_the_paper(path, value):
    found = PUBLISHED
    for key in path.split("/"):
        found = found[int(key) if key.isdigit() else key]
    assert found == value


@pytest.mark.parametrize("table", ["field_error", "jacobian_error"])
def test_fifteen_cells_of_three_methods(table):
    cells = [set(methods) for sizes in PUBLISHED[table].values() for methods in sizes.values()]
    assert cells == [{"fno", "stcl", "offline_di"}] * 15
