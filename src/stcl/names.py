"""How methods and problems are called where people read them."""

METHODS = {"fno": "FNO", "stcl": "sTCL", "offline_di": "Offline DI"}  # in the order of the tables
_PROBLEMS = {
    "helmholtz": "Helmholtz",
    "diffusion": "Nonlinear diffusion",
    "burgers": "Burgers",
    "allen_cahn": "Allen-Cahn",
    "navier_stokes": "Navier-Stokes",
}


def problem_name(problem: str) -> str:
    """The name of a problem; one that is not the paper's is called by its file."""
    return _PROBLEMS.get(problem, problem.replace("_", " ").capitalize())
