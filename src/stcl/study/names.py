"""The names of methods and problems that people read."""

METHOD_NAMES = {"fno": "FNO", "stcl": "sTCL", "offline_di": "Offline DI"}  # this is the order of the tables
_PROBLEMS = {
    "helmholtz": "Helmholtz",
    "diffusion": "Nonlinear diffusion",
    "burgers": "Burgers",
    "allen_cahn": "Allen-Cahn",
    "navier_stokes": "Navier-Stokes",
}


def paper_order(problem: str) -> tuple[int, str]:
    """A sort key that puts the paper's problems in the order of its tables, and others after them by name."""
    known = list(_PROBLEMS)
    return (known.index(problem) if problem in known else len(known), problem)


def problem_name(problem: str) -> str:
    """The name of a problem. One that is not the paper's is called by its file."""
    return _PROBLEMS.get(problem, problem.replace("_", " ").capitalize())
