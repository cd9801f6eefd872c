"""This module says in words what the variants of a study are."""

import json
from typing import Any

from stcl.problems import is_file
from stcl.study.names import problem_name


def variants(config: dict[str, Any]) -> dict[str, str]:
    """The problem of each variant of a configuration that is given as plain JSON.

    A problem in a file of its user has a name and a path, and is no variant of anything.
    """
    return {name: problem for name, problem in _renamed(config).items() if not is_file(problem)}


def differences(config: dict[str, Any]) -> list[str]:
    """One sentence for each variant, which says in what it differs from its problem, and for each file of the user.

    A variant whose problem is not part of the study is described by its options, and so is the problem of a file.
    """
    return [_sentence(config["problems"], name, problem) for name, problem in _renamed(config).items()]


def _renamed(config: dict[str, Any]) -> dict[str, str]:
    """What is loaded for each problem whose name in the study is another."""
    loaded = {name: settings["problem"] or name for name, settings in config["problems"].items()}
    return {name: problem for name, problem in loaded.items() if name != problem}


def _sentence(problems: dict[str, Any], name: str, problem: str) -> str:
    if not is_file(problem):
        return f"{problem_name(name)} is {problem_name(problem)} with {_changes(problems, name, problem)}."
    options = f", with {_changes(problems, name, problem)}" if problems[name]["options"] else ""
    return f"{problem_name(name)} is the problem of {problem}{options}."


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
