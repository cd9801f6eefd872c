"""The names of methods and problems that people read."""

from stcl import problems

METHOD_NAMES = {"fno": "FNO", "stcl": "sTCL", "offline_di": "Offline DI"}  # this is the order of the tables
_PROBLEMS = {
    "helmholtz": "Helmholtz",
    "diffusion": "Nonlinear diffusion",
    "burgers": "Burgers",
    "allen_cahn": "Allen-Cahn",
    "navier_stokes": "Navier-Stokes",
}


def paper_order(problem: str, name: str) -> tuple[int, str, bool, str]:
    """A sort key that puts the paper's problems in the order of its tables, and others after them by name.

    A variant of a problem, which has a `name` of its own, stands after the problem.
    """
    known = list(_PROBLEMS)
    return (known.index(problem) if problem in known else len(known), problem, name != problem, name)


def problem_name(name: str) -> str:
    """The name of a problem or a variant.

    One that is not the paper's is called as in the configuration. A variant whose name begins with a problem of the
    paper is called after it: `burgers_published` is "Burgers (published)".
    """
    for problem, shown in _PROBLEMS.items():
        if name == problem:
            return shown
        if name.startswith(f"{problem}_") and name not in problems.names():
            return f"{shown} ({name.removeprefix(f'{problem}_').replace('_', ' ')})"
    return name.replace("_", " ").capitalize()
