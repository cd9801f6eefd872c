"""stcl diagnose: its page, and what it says about files that do not fit."""

import sys

import pytest

from stcl import cli

POISSON = """
import stcl, torch

def residual(u, a):
    return -(u[:, 2:] - 2 * u[:, 1:-1] + u[:, :-2]) * 32**2 - a[:, 1:-1]

equation = stcl.Equation(residual, torch.randn(4, 33), torch.nn.functional.pad(torch.randn(4, 31), (1, 1)))
"""


def page(monkeypatch, capsys, *arguments: str) -> str:
    monkeypatch.setattr(sys, "argv", ["stcl", "diagnose", *arguments])
    cli.main()
    return capsys.readouterr().out


def test_the_page_of_a_file(tmp_path, monkeypatch, capsys):
    file = tmp_path / "my_problem.py"
    file.write_text(POISSON)
    text = page(monkeypatch, capsys, str(file))
    expected = [
        "u on x (33 nodes), 31 unknowns, 2 values at walls held",
        "class      spd: definite elliptic; symmetric",
        "κ(AᵀA)  1.7e+05",  # cot(π/64)⁴
        "κ(AᵀMA) 4.1e+02",  # cot(π/64)²
        "form       krylov_target",
        "solver cg",
        "transforms sine",
        "weights 1024",
        "why        the eigenvalues of MA",
        "4 tangents along the value",
        "ms with gradient here",
    ]
    assert [line for line in expected if line not in text] == []


def test_the_page_of_a_named_problem(monkeypatch, capsys):
    text = page(monkeypatch, capsys, "helmholtz", "--options", '{"n": 13}')
    assert "Helmholtz: u on x1 (13 nodes) × x2 (13 nodes), 121 unknowns" in text
    assert "solver minres" in text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("x = 1", "must define `equation`"),
        (
            "import stcl, torch\nequation = stcl.Equation(lambda u, a: u, torch.ones(2, 9), torch.ones(2, 9))",
            "depend on a",
        ),
        (None, "no file"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(tmp_path, monkeypatch, capsys, content, message):
    file = tmp_path / "my_problem.py"
    if content is not None:
        file.write_text(content)
    with pytest.raises(SystemExit, match=message):
        page(monkeypatch, capsys, str(file))


def test_unknown_problems_and_misplaced_options(tmp_path, monkeypatch, capsys):
    with pytest.raises(SystemExit, match="unknown problem 'heat'; known problems: allen_cahn"):
        page(monkeypatch, capsys, "heat")
    file = tmp_path / "my_problem.py"
    file.write_text(POISSON)
    with pytest.raises(SystemExit, match="set what you need in the file"):
        page(monkeypatch, capsys, str(file), "--options", '{"n": 9}')
