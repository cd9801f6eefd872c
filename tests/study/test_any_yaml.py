"""No traceback for any configuration: what cannot be used is refused with a message, whatever it is."""

import copy
import random
from pathlib import Path

import numpy as np
import pytest
import yaml

from stcl import problems
from stcl.reporting.figures.plan import figure_plans
from stcl.reporting.tables.plan import table_plans
from stcl.study.config import ConfigError, parse
from stcl.study.plan import Plan

TINY = yaml.safe_load((Path(__file__).parents[2] / "config/test/tiny.yaml").read_text())
VALUES = [None, True, False, 0, 1, 2, -1, 3.5, 1e30, -1e-9, 10**12, float("nan"), float("inf"), "", "x", "burgers"]
VALUES += ["../up", [], [0], [[]], ["x", 1], {}, {"n": 3}, {"name": "x"}, {1: 2}, {None: None}]


def places(node, path=()):
    """The path of every key and element."""
    inside = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in inside:
        yield (*path, key)
        yield from places(value, (*path, key))


def mutated(config: dict, rng: random.Random) -> dict:
    """The configuration with one to three keys replaced, removed, renamed or added."""
    config = copy.deepcopy(config)
    for _ in range(rng.randint(1, 3)):
        *parents, last = rng.choice(list(places(config)))
        node = config
        for key in parents:
            node = node[key]
        what = rng.choice(["replace", "replace", "replace", "remove", "rename", "add"])
        value = copy.deepcopy(rng.choice(VALUES))
        if what == "replace" or isinstance(node, list):
            node[last] = value
        elif what == "remove":
            del node[last]
        elif what == "rename":
            node[f"{last}_"] = node.pop(last)
        else:
            node[rng.choice(["new", "n", "lambda", 3])] = value
        if not config:
            break
    return config


@pytest.mark.parametrize("seed", range(30))
def test_a_configuration_is_used_or_refused_with_a_message(seed):
    """Twenty mutations of the tiny study each: of those that are accepted every spec can be made."""
    rng = random.Random(seed)
    for _ in range(20):
        config = mutated(TINY, rng)
        try:
            plan = Plan(parse(config))
        except ConfigError:
            continue
        for dataset in plan.datasets:
            plan.data_spec(dataset, "train").canonical()
            plan.bank_spec(dataset, "test").canonical()
        for cell in plan.cells.values():
            plan.train_spec(cell).canonical()
        for problem in plan.config.problems:
            plan.timing_spec(problem).canonical()
        for name in plan.config.studies.conditioning.options if plan.config.studies.conditioning else ():
            plan.conditioning_spec(name).canonical()
        table_plans(plan)
        figure_plans(plan)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("diffusion", {"n": "33"}, "option n: Input should be a valid integer, got '33'"),
        ("diffusion", {"n": 33.0}, "valid integer"),
        ("diffusion", {"n": True}, "valid integer"),
        ("diffusion", {"n": None}, "valid integer"),
        ("helmholtz", {"kappa": float("nan")}, "option kappa must be finite"),
        ("helmholtz", {"kappa": [5.0]}, "valid number"),
        ("burgers", {"scheme": "two_sweep"}, "'implicit' or 'three_sweep'"),
        ("allen_cahn", {"nx": 10**12}, "at most 1e\\+06"),
        ("navier_stokes", {"mu": "thick"}, "valid number"),
    ],
)
def test_options_of_a_problem_are_checked_for_type_and_size(name, options, message):
    with pytest.raises(ValueError, match=message):
        problems.load(name, **options)


def test_lists_of_yaml_are_taken_for_tuples_and_unknown_types_are_left_alone():
    assert problems._checked_option("x", tuple[int, int], [3, 4]) == (3, 4)
    assert problems._checked_option("x", np.ndarray, [3, 4]) == [3, 4]


def test_whole_numbers_are_taken_for_real_ones():
    assert problems.load("helmholtz", kappa=6).wave_number == 6
