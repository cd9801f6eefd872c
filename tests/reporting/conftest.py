"""Runs as trainings and evaluations leave them, for tests of tables."""

import json

import pytest


@pytest.fixture
def results(tmp_path):
    return tmp_path / "results/p"


@pytest.fixture
def run(results):
    def write(path, field=None, jacobian=None, history="", lam=1.0, log=None, training=None, **record):
        folder = results / "runs" / path
        if field is not None:
            folder.mkdir(parents=True)
            spec = {"lam": lam, "training": {"epochs": 7} | (training or {})}
            record |= {"spec": spec, "seconds": 1.0, "contents": {"train": "da7a"}}
            (folder / "train.json").write_text(json.dumps(record))
            errors = {"spec": spec, "field_error": field, "jacobian_error": jacobian}
            (folder / "errors.json").write_text(json.dumps(errors))
            (folder / "history.csv").write_text(history)
        if log is not None:
            file = results / "logs/train" / f"{path}.log"
            file.parent.mkdir(parents=True)
            file.write_text(log)
        return folder

    return write


@pytest.fixture
def two_seeds(run):
    return [
        run("diffusion/N8/fno/lam0/seed0", 0.5, 0.9),
        run("diffusion/N8/stcl/lam1/seed0", 0.02, 0.1),
        run("diffusion/N8/stcl/lam1/seed1", 0.04, 0.3),
    ]
