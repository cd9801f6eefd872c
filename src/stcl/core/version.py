"""The version of this package."""

import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


def _version() -> str:
    """The version in the pyproject.toml of the source folder, or in the record of the installed package.

    The folder comes first, because an editable installation remembers the version of the day it was made.
    """
    file = Path(__file__).resolve().parents[3] / "pyproject.toml"
    project = tomllib.loads(file.read_text()).get("project", {}) if file.is_file() else {}
    if project.get("name") == "stcl":
        return str(project["version"])
    try:
        return version("stcl")
    except PackageNotFoundError:
        return "0+unknown"


__version__ = _version()
