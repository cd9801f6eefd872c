"""A cell and its path name the same thing."""

import pytest

from stcl.study.cells import SELECTED, Cell


@pytest.mark.parametrize(
    ("cell", "path"),
    [
        (Cell("diffusion", 16, "fno", None, 0), "diffusion/N16/fno/lam0/seed0"),
        (Cell("allen_cahn", 512, "stcl", 1.0, 12), "allen_cahn/N512/stcl/lam1/seed12"),
        (Cell("diffusion-n13-q1", 16, "offline_di", 0.25, 3), "diffusion-n13-q1/N16/offline_di/lam0.25/seed3"),
        (Cell("burgers", 8, "stcl", 2e-5, 0), "burgers/N8/stcl/lam2e-05/seed0"),
        (Cell("burgers", 8, "stcl", 3e6, 0), "burgers/N8/stcl/lam3e+06/seed0"),
        (Cell("burgers-form-penalty", 8, "stcl", SELECTED, 0), "burgers-form-penalty/N8/stcl/lamselected/seed0"),
    ],
)
def test_a_path_is_read_back_as_the_cell_that_wrote_it(cell, path):
    assert cell.path == path
    assert Cell.parse(path) == cell


@pytest.mark.parametrize(
    "path",
    [
        "",
        "diffusion/N16/fno/lam0",
        "results/tiny/runs/diffusion/N16/fno/lam0/seed0",
        "diffusion/N16/fno/lam0/seed0/",
        "diffusion/16/fno/lam0/seed0",
        "diffusion/N16/fno/lam/seed0",
        "diffusion/N16/stcl/lamchosen/seed0",
        "diffusion/N16/stcl/lam1.2.3/seed0",
        "diffusion/N16/stcl/lam1/seedling",
        "../N16/stcl/lam1/seed0",
    ],
)
def test_another_path_is_refused_with_what_was_expected_and_what_came(path):
    with pytest.raises(ValueError, match="expected the path of a cell, <block>/N<n>/") as refused:
        Cell.parse(path)
    assert repr(path) in str(refused.value)
