"""This module turns a configuration file into a checked study, or into a message that lists all that is wrong."""

from collections.abc import Iterable
from typing import Any

from pydantic import ValidationError

from stcl import problems
from stcl.losses import rule
from stcl.study.checks import check
from stcl.study.coercion import plain
from stcl.study.names import paper_order
from stcl.study.schema import Config, ProblemSettings


class ConfigError(ValueError):
    """The configuration cannot be used; the message lists every reason."""


def parse(config: dict[str, Any]) -> Config:
    """The validated configuration with defaults filled in. It raises ConfigError with one line for every finding."""
    config = plain(config)
    try:
        parsed = Config.model_validate(config)
    except ValidationError as error:
        raise ConfigError(_message(_explain(e, config) for e in error.errors())) from None
    # The problems get an order of their own, so that the order in the file makes nothing stale.
    order = sorted(parsed.problems, key=lambda name: paper_order(parsed.loaded(name), name))
    ordered = {name: _with_form(parsed.loaded(name), parsed.problems[name]) for name in order}
    parsed = parsed.model_copy(update={"problems": ordered})
    findings = list(check(parsed))
    if findings:
        raise ConfigError(_message(findings))
    return parsed


def _with_form(problem: str, settings: ProblemSettings) -> ProblemSettings:
    """The settings with the form that the decision rule gives, where sTCL has none of its own."""
    methods = settings.methods
    if methods.stcl is None or methods.stcl.form is not None:
        return settings
    try:
        form = rule.default_form(problems.load(problem, **settings.options))
    except (ValueError, TypeError):
        return settings  # stcl.study.checks says why
    stcl = methods.stcl.model_copy(update={"form": form})
    return settings.model_copy(update={"methods": methods.model_copy(update={"stcl": stcl})})


def _message(findings: Iterable[str]) -> str:
    return "the configuration cannot be used:\n" + "\n".join(f"  - {finding}" for finding in findings)


def _explain(error: Any, config: dict[str, Any]) -> str:
    path = _path(error["loc"], config)
    if error["type"] == "extra_forbidden":
        return f"{path}: unknown key; config/README.md lists the known ones"
    if error["type"] == "missing":
        return f"{path}: this key is required"
    if error["type"] == "union_tag_invalid":
        what, context = error["loc"][-1], error["ctx"]
        return f"{path}: no {what} {context['tag']!r}; there are: {context['expected_tags']}"
    return f"{path}: {error['msg']}, got {error['input']!r}"


def _path(location: tuple[str | int, ...], config: Any) -> str:
    """The place of an error in the file. A location also names alternatives between its keys; they are left out."""
    node, parts = config, []
    for depth, part in enumerate(location, start=1):
        inside = part in node if isinstance(node, dict) else isinstance(node, list) and isinstance(part, int)
        missing = depth == len(location) and isinstance(node, dict)
        if inside or missing:
            parts.append(str(part))
        node = node[part] if inside else node
    return ".".join(parts)
