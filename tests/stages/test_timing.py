"""A record of timing says what was timed."""

import json
import sys

import torch
from cost_study import STUDY, estimate

from stcl.stages import data, timing
from stcl.study.config import parse
from stcl.study.plan import Plan


def test_what_was_timed_is_in_the_record_and_counts_for_the_same_settings_alone(tmp_path, monkeypatch):
    problem = STUDY["problems"]["diffusion"] | {"samples": {"train": 8, "val": 2, "test": 2}, "train_sizes": [8]}
    study = STUDY | {"problems": {"diffusion": problem | {"methods": {"fno": {}}}}, "timing": {"epochs": 1}}
    plan = Plan(parse(study))
    splits = {split: tmp_path / f"{split}.json" for split in ("train", "val")}
    for split, path in splits.items():
        data.generate(plan.data_spec("diffusion", split), path, tmp_path / "work", "", workers=1)
    out = tmp_path / "diffusion.json"
    options = {"spec": plan.timing_spec("diffusion").canonical(), **splits, "out": out}
    options |= {"threads": torch.get_num_threads(), "device": "cpu"}
    monkeypatch.setattr(timing, "keep_heap", lambda: None)  # it would change the process of the tests
    monkeypatch.setattr(sys, "argv", ["timing", *(str(x) for name, v in options.items() for x in (f"--{name}", v))])
    timing.main()
    timings = {"diffusion": json.loads(out.read_text())}
    assert estimate(study, timings=timings).rate("diffusion").source == "measured on cpu"
    other = problem | {"methods": {"fno": {}}, "network": problem["network"] | {"width": 9}}
    assert estimate(study | {"problems": {"diffusion": other}}, timings=timings).rate("diffusion").source == "published"
