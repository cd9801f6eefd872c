"""A small study whose cost can be worked out by hand."""

from stcl.study.config import parse
from stcl.study.cost import CostEstimate
from stcl.study.plan import Plan

STUDY = {
    "preset": "p",
    "reduced": True,
    "seeds": [0, 1],
    "problems": {
        "diffusion": {
            "options": {"n": 13},  # 169 nodes
            "samples": {"train": 40, "val": 10, "test": 10},
            "train_sizes": [20, 40],
            "bank": {"train": 7, "test": 3},
            "network": {"modes": 4, "width": 8, "layers": 2, "head": 16},
            "training": {"epochs": 5, "batch": 8},
            "methods": {"fno": {}, "offline_di": {"lambda": 1.0, "q": 2}, "stcl": {"lambda": 1.0, "q": 8}},
        }
    },
}
# 100 updates: 1, 3 and 5 seconds of each, with 16 samples, 4 directions and 338 nodes
PUBLISHED = {
    "wallclock": {"diffusion": {"fno": 100, "offline_di": 300, "stcl": 500}},
    "wallclock_runs": {
        "n_train": 64,
        "batch": 16,
        "q": 4,
        "epochs": {"diffusion": 25},
        "nodes": {"diffusion": 338},
        "steps": {},
    },
    "minres_iterations": {1: {"seconds": 100}, 3: {"seconds": 150}, 5: {"seconds": 180}},
}
SOLVERS = {"diffusion": {"nodes": 338, "response": 0.2, "tangent": 0.04}}


def estimate(config=STUDY, published=PUBLISHED, solvers=SOLVERS, timings=None):
    return CostEstimate(Plan(parse(config)), published, solvers, timings or {})


def timing(seconds, config=STUDY, problem="diffusion"):
    """What the stage `timing` leaves of a problem, with these seconds of an epoch of each method, by its name."""
    spec = Plan(parse(config)).timing_spec(problem)
    cells = {path: {"epoch_seconds": seconds[cell.method], "epochs": 5} for path, cell in spec.cells.items()}
    return {problem: {"spec": spec.json_dict(), "cells": cells, "device": "a card"}}
