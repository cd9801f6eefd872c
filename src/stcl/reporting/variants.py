"""This module says in words what the variants of a study are."""

import json
from typing import Any

from stcl.study.names import problem_name


def variants(config: dict[str, Any]) -> dict[str, str]:
    """The problem, by its file, of each variant of a configuration that is given as plain JSON."""
    loaded = {name: settings["problem"] or name for name, settings in config["problems"].items()}
    return {name: problem for name, problem in loaded.items() if name != problem}


def differences(config: dict[str, Any]) -> list[str]:
    """One sentence for each variant, which says in what it differs from its problem.

    A variant whose problem is not part of the study is described by its options.
    """
    return [
        f"{problem_name(name)} is {problem_name(problem)} with {_changes(config['problems'], name, problem)}."
        for name, problem in variants(config).items()
    ]


def _changes(problems: dict[str, Any], name: str, problem: str) -> str:
    own = problems[name] if problem in problems else {"options": problems[name]["options"]}
    here, there = (_flat(settings) for settings in (own, problems.get(problem, {})))
    changes = [f"{key} = {_text(value)}" for key, value in here.items() if there.get(key, ...) != value]
    changes += [f"{key} left out" for key in dict.fromkeys(_missing(key, here) for key in there if key not in here)]
    *first, last = changes or ["the same settings"]
    return f"{', '.join(first)} and {last}" if first else last


def _missing(key: str, present: dict[str, Any]) -> str:
    """The shortest beginning of a dotted key of which nothing is present."""
    parts = key.split(".")
    beginnings = (".".join(parts[:depth]) for depth in range(1, len(parts)))
    return next((b for b in beginnings if not any(k.startswith(f"{b}.") for k in present)), key)


def _flat(settings: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """The settings under dotted keys, without the name of the problem."""
    found: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, dict):
            found |= _flat(value, f"{prefix}{key}.")
        elif value is not None and (prefix or key != "problem"):
            found[f"{prefix}{key}"] = value
    return found


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
