"""Studies as the workflow leaves them, made by its stages without snakemake."""

import copy
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from stcl.stages import bank, data, evaluate, train
from stcl.study.config import parse
from stcl.study.plan import Plan

CPU = torch.device("cpu")
SETTINGS = {
    "samples": {"train": 12, "val": 4, "test": 6},
    "train_sizes": [8],
    "bank": {"train": 2, "test": 3},
    "network": {"modes": 3, "width": 6, "layers": 2, "head": 8},
    "training": {"epochs": 3, "batch": 4},
    "methods": {"stcl": {"lambda": 1.0, "q": 2}},
}
OPTIONS = {"diffusion": {"n": 9}, "navier_stokes": {"n": 8}}


def build(folder: Path, work: Path, problems: dict[str, Any]) -> list[Path]:
    """Makes data, test banks and all cells of a study in `folder`, and returns the folders of the cells."""
    plan = Plan(parse({"preset": "test", "reduced": True, "seeds": [0], "problems": problems}))
    made = []
    for name in problems:
        splits = {split: folder / f"data/{name}/{split}.json" for split in ("train", "val", "test")}
        for split, manifest in splits.items():
            data.generate(plan.data_spec(name, split), manifest, work, "", workers=1)
        labels = folder / f"banks/{name}/test.json"
        bank.generate(plan.bank_spec(name, "test"), splits["test"], labels, work, "", workers=1)
        for cell in plan.final_cells([plan.blocks[name]]):
            record = folder / "runs" / cell.path / "train.json"
            train.train_cell(plan.train_spec(cell), train.Inputs(splits["train"], splits["val"]), record, work, "", CPU)
            evaluate.evaluate(record, evaluate.HeldOut.read(splits["test"], labels, CPU), CPU)
            made.append(record.parent)
    return made


@pytest.fixture(scope="session")
def results(tmp_path_factory) -> Path:
    """results/test with a cell of two problems, which is hardly trained."""
    folder = tmp_path_factory.mktemp("study") / "results/test"
    problems = {name: copy.deepcopy(SETTINGS) | {"options": options} for name, options in OPTIONS.items()}
    build(folder, tmp_path_factory.mktemp("work"), problems)
    return folder


@pytest.fixture(scope="session")
def cells(results) -> dict[str, Path]:
    """The folder of each problem's cell."""
    return {name: results / f"runs/{name}/N8/stcl/lam1/seed0" for name in OPTIONS}


@pytest.fixture
def cell(results, tmp_path) -> Path:
    """The cell of diffusion in a copy of the study that one test may change as it likes."""
    shutil.copytree(results, tmp_path / "results/test")
    return tmp_path / "results/test/runs/diffusion/N8/stcl/lam1/seed0"
