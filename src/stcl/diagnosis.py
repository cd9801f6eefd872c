"""One page on an equation: what its tangent operator is like, which form of the loss fits it, why, and at what cost."""

import copy
import math
import statistics
import time
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from stcl.consistency import TangentConsistency
from stcl.core.interfaces import DiscreteEquation, OperatorClass, TangentForm, TargetForm
from stcl.core.settings import Settings
from stcl.equation import model_shapes
from stcl.losses import forms
from stcl.losses.rule import Findings, choose, with_kept_solver, without_labels
from stcl.losses.settings import Direct, FittedLaplacian, FormSettings, March, SolvedTarget, metric_of
from stcl.probe import operators_of, probe, random_directions
from stcl.tangent.data_check import SAMPLES, Agreement, agreement
from stcl.tangent.data_verdict import parts, verdict
from stcl.tangent.spectrum import ritz_values
from stcl.tangent.structure import block_signs

CLASSES = {
    "spd": "definite elliptic",
    "indefinite": "indefinite elliptic",
    "parabolic": "evolution in time",
    "saddle": "velocities with a multiplier",
    "advective": "steady, without a Laplacian",
}
VERDICTS = {
    "holds": "holds",
    "doubtful": "is doubtful",
    "contradicted": "is contradicted by the data",
    "without slope": "has no slope in u; is the residual squared?",
}
BATCH, Q = 8, 4  # samples and directions of the update whose cost is measured
STARTS = 4  # random vectors whose Lanczos steps make the picture of the spectrum
STEPS = 60  # Lanczos steps from each random vector
ROUNDS = 8  # updates of each kind whose times are compared; the first of them does not count
WIDTH = 40  # characters of the longest bar of the spectrum


@dataclass(frozen=True)
class Price:
    """What an update with the loss costs, in updates with data alone."""

    model: str
    milliseconds: float  # of an update with data alone
    ratios: list[tuple[str, float]]  # how the loss is set up, and the time of an update over that with data alone

    def __str__(self) -> str:
        lines = [f"price      an update with data alone is 1, {self.milliseconds:.2g} ms here with {self.model}:"]
        return "\n".join(lines + [f"           {ratio:5.1f}  {name}" for name, ratio in self.ratios])


@dataclass(frozen=True)
class Diagnosis:
    """The parts of the page. `print` shows it whole."""

    title: str
    findings: Findings
    form: FormSettings
    reasons: list[str]
    spectrum: list[tuple[float, float]]  # eigenvalues of (A + Aᵀ)/2, or stand-ins for them, and the share of each
    milliseconds: float  # time of the form and its gradient in one update
    extra_products: str
    agreement: Agreement  # how well the equation holds at its states
    price: Price

    @property
    def kind(self) -> str:
        """The class of A in words. Only what is symmetric and positive is called spd."""
        kind = self.findings.tangent_class
        if kind != "spd":
            return f"{kind}: {CLASSES[kind]}"
        if max(value for value, _ in self.spectrum) < 0:
            return "definite: elliptic, with −A positive: the equation is written with the other sign"
        return f"spd: {CLASSES[kind]}" if self.findings.symmetric else "definite: elliptic"

    def __str__(self) -> str:
        found = self.findings
        symmetry = "symmetric" if found.symmetric else f"not symmetric, ‖A − Aᵀ‖/‖A‖ = {found.symmetry_defect:.1e}"
        held = "" if found.condition_joint is None else ", in the scored responses; the others are held"
        raw = _bound(found.condition_raw, found.condition_raw_is_bound)
        lines = [
            self.title,
            "",
            f"data       F(u, a) = 0 {VERDICTS[verdict(self.agreement)]}: at the states",
            *(f"           {part}" for part in parts(self.agreement)),
            "",
            f"class      {self.kind}; {symmetry}",
            "",
            "spectrum of (A + Aᵀ)/2: share of the eigenvalues",
            *histogram(self.spectrum),
            "",
            f"condition  κ(AᵀA)  {raw}   of the raw residual{held}",
        ]
        if found.condition_metric is not None:
            value = _bound(found.condition_metric, found.condition_metric_is_bound)
            lines.append(f"           κ(AᵀMA) {value}   with the metric M below{held}")
        if found.condition_joint is not None:
            joint = _bound(found.condition_joint, found.condition_joint_is_bound)
            lines.append(f"           κ(AᵀA)  {joint}   of the raw residual, in all unknowns")
        lines += ["", f"form       {self.form.name}"]
        lines += [f"           {line}" for line in _settings(self.form)]
        lines += ["", *(f"{'why' if i == 0 else '   '}        {reason}" for i, reason in enumerate(self.reasons))]
        lines += ["", f"unlabelled {without_labels(self.form)}"]
        lines += [
            "",
            f"cost       an update of {BATCH} samples with q = {Q}, beside the data loss:",
            f"           network   {Q} tangents along the value it computes anyway, and their backward pass",
            f"           equation  {Q} products with its derivative a sample{self.extra_products}",
            f"                     {self.milliseconds:.1f} ms with gradient here, threads: {torch.get_num_threads()}",
            "",
            str(self.price),
        ]
        return "\n".join(lines)


def diagnose(equation: DiscreteEquation, model: nn.Module | None = None) -> Diagnosis:
    """Probe an equation and apply the decision rule to what was measured.

    The price of an update is measured with a copy of your model, which takes the equation's inputs in the shape that
    you gave them; without one, with a small MLP. The cheaper the model, the more the loss weighs.

    >>> import torch, stcl
    >>> def residual(u, a):  # u'' + 30² u = a on 33 nodes, u = 0 at both ends
    ...     return (u[:, 2:] - 2 * u[:, 1:-1] + u[:, :-2]) * 1024 + 900 * u[:, 1:-1] - a[:, 1:-1]
    >>> _ = torch.manual_seed(2)
    >>> u = torch.nn.functional.pad(torch.randn(4, 31), (1, 1))
    >>> a = torch.nn.functional.pad(residual(u, torch.zeros(4, 33)), (1, 1))  # whose solution is u
    >>> page = stcl.diagnose(stcl.Equation(residual, a, u))
    >>> page.findings.tangent_class, page.form.solver.name, page.form.solver.otherwise.method
    ('indefinite', 'direct', 'minres')
    """
    findings = probe(equation)
    chosen, reasons = choose(findings)
    form, kept = with_kept_solver(findings, chosen)
    kind = findings.krylov_class
    layout = equation.layout
    return Diagnosis(
        title=f"{type(equation).__name__}: {layout.in_words}, {findings.unknowns} unknowns"
        + (f", {equation.held_nodes} values at walls held" if equation.held_nodes else ""),
        findings=findings,
        form=form,
        reasons=reasons + kept,
        spectrum=_spectrum(equation),
        milliseconds=_milliseconds(equation, form, kind),
        extra_products=_extra_products(form, forms.load(equation, form, kind), len(layout.grid)),
        agreement=_agreement(equation),
        price=_price(equation, model, [form] if form == chosen else [form, chosen]),
    )


def _agreement(equation: DiscreteEquation) -> Agreement:
    a, u = equation.states(SAMPLES)
    return agreement(equation.residual, layout=equation.layout, a=a, u=u)


def _spectrum(equation: DiscreteEquation) -> list[tuple[float, float]]:
    """Eigenvalues of the symmetric part at the first state and their shares; if A is large, Ritz values and weights."""
    (operator,) = operators_of(equation, 1)
    signs = block_signs(operator)
    if operator.assembled is not None:
        matrix = signs[:, None] * operator.assembled
        return [(float(value), 1 / len(matrix)) for value in torch.linalg.eigvalsh((matrix + matrix.T) / 2)]

    def product(x: Tensor) -> Tensor:
        return (signs * operator.product(x[None])[0] + operator.transposed_product((signs * x)[None])[0]) / 2

    generator, found = torch.Generator().manual_seed(0), []
    for _ in range(STARTS):
        start = torch.randn(len(operator.unknowns), generator=generator, dtype=torch.float64).to(operator.u)
        values, weights = ritz_values(product, start, STEPS, symmetric=True)
        found += [(float(value), float(weight) / STARTS) for value, weight in zip(values, weights, strict=True)]
    return found


def histogram(spectrum: list[tuple[float, float]]) -> list[str]:
    """A bar for each half decade of either sign, from the most negative to the most positive eigenvalue."""
    largest = max(abs(value) for value, _ in spectrum)
    shares: dict[tuple[int, int], float] = {}
    for value, share in spectrum:
        # What is six decades below the largest counts as zero, and goes into the lowest bin of its sign.
        half_decade = math.floor(2 * math.log10(max(abs(value), 1e-6 * largest)))
        place = (1, half_decade) if value >= 0 else (-1, -half_decade)
        shares[place] = shares.get(place, 0.0) + share
    top = max(shares.values())
    lines = []
    for (sign, signed), share in sorted(shares.items()):
        half_decade = sign * signed
        edges = [f"{sign * 10 ** (h / 2):9.1e}" for h in (half_decade, half_decade + 1)]
        bar = "█" * max(round(WIDTH * share / top), 0) or "▏"
        low, high = edges if sign > 0 else edges[::-1]
        lines.append(f"  {low} … {high}  {bar} {share:.2%}")
    return lines


def _milliseconds(equation: DiscreteEquation, form: FormSettings, kind: OperatorClass) -> float:
    """The time of one call of the form and its gradient with respect to the tangents: the median of a few."""
    a, u = equation.states(BATCH)
    rows = torch.arange(BATCH) % len(a)
    v = random_directions(a, (BATCH, Q))
    single = u.dtype if u.dtype != torch.float64 else torch.float32
    try:
        return _timed(forms.load(equation, form, kind), *(x.to(single) for x in (a[rows], u[rows], v)))
    except RuntimeError:  # the residual has constants in double precision
        return _timed(forms.load(equation, form, kind), a[rows], u[rows], v)


def _timed(loss: TangentForm, a: Tensor, u: Tensor, v: Tensor) -> float:
    w = u.unsqueeze(1).expand(len(u), Q, *u.shape[1:]).clone().requires_grad_()
    seconds = []
    for _ in range(6):
        start = time.perf_counter()
        loss(a, u, v, w, label=u).backward()
        seconds.append(time.perf_counter() - start)
    return 1e3 * statistics.median(seconds[1:])


def _price(equation: DiscreteEquation, model: nn.Module | None, candidates: list[FormSettings]) -> Price:
    """The shortest of a few updates of each kind, which take turns. What they draw does not touch torch's own state."""
    states, shapes = equation.states(BATCH), model_shapes(equation)
    with torch.random.fork_rng(devices=[]):
        used = _mlp(*shapes) if model is None else copy.deepcopy(model)
        try:
            ratios = _priced(equation, used, states, shapes, candidates)
        except RuntimeError:  # the residual has constants in double precision
            ratios = _priced(equation, used.double(), states, shapes, candidates)
    (_, data), *rest = ratios
    name = "an MLP with 64 hidden values" if model is None else type(model).__name__
    return Price(name, 1e3 * data, [(kind, seconds / data) for kind, seconds in rest])


def _priced(
    equation: DiscreteEquation,
    model: nn.Module,
    states: tuple[Tensor, Tensor],
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
    candidates: list[FormSettings],
) -> list[tuple[str, float]]:
    """The seconds of an update with data alone, then with each form."""
    weight = next(model.parameters())
    rows = torch.arange(BATCH) % len(states[0])
    a, u = (x[rows].to(weight).reshape(BATCH, *shape) for x, shape in zip(states, shapes, strict=True))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.0)

    def seconds(term: TangentConsistency | None) -> float:
        start = time.perf_counter()
        loss = mse_loss(model(a).reshape(u.shape), u)
        if term is not None:
            loss = loss + term(model, a, u, data=loss)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        loss.item()  # an accelerator has only then done its work
        return time.perf_counter() - start

    terms: list[TangentConsistency | None] = [None]
    for form in candidates:
        terms.append(TangentConsistency(equation, form=form, directions="white", q=Q))
        terms[-1].announced = True  # type: ignore[union-attr]  # nothing is to be said of a measurement
    times = [[seconds(term) for term in terms] for _ in range(ROUNDS)][1:]
    names = ["data alone", *(_name(form) for form in candidates)]
    return [(name, min(column)) for name, column in zip(names, zip(*times, strict=True), strict=True)]


def _name(form: FormSettings) -> str:
    if isinstance(form, SolvedTarget) and isinstance(form.solver, Direct):
        return f"{form.name}, inverses kept for labels, up to {form.solver.limit / 2**30:.3g} GiB (an epoch makes them)"
    return f"{form.name}, nothing kept"


def _mlp(inputs: tuple[int, ...], responses: tuple[int, ...]) -> nn.Module:
    """A model of one hidden layer for any shapes."""
    counts = (math.prod(inputs), math.prod(responses))
    layers = [nn.Flatten(), nn.Linear(counts[0], 64), nn.GELU(), nn.Linear(64, counts[1])]
    return nn.Sequential(*layers, nn.Unflatten(1, responses))


def _extra_products(form: FormSettings, loaded: TangentForm, axes: int) -> str:
    """What a form needs beyond the tangent residual."""
    extra = ""
    if isinstance(form, SolvedTarget) and isinstance(form.solver, Direct):
        extra += ", and one with the inverse of A, which is kept"
    elif isinstance(form, SolvedTarget) and isinstance(form.solver, March):
        extra += ", and one sweep through the frames for each direction"
    elif isinstance(loaded, TargetForm):
        extra += f", and {loaded.solver.products} with A for each direction"
    metric = metric_of(form)
    if isinstance(metric, FittedLaplacian) and metric.scaled:
        extra += f", and {2 * axes + 1} for its diagonal"
    return extra


def _settings(chosen: Settings) -> list[str]:
    """Everything that was chosen, one line each; what belongs to a solver or a metric is indented."""
    lines = []
    for name in type(chosen).model_fields:
        value = getattr(chosen, name)
        if isinstance(value, Settings):
            lines += [f"{name} {getattr(value, 'name', '')}", *(f"  {line}" for line in _settings(value))]
        elif name != "name" and value is not None:
            lines.append(f"{name} {_short(value)}")
    return lines


def _short(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_short, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _bound(value: float | None, is_bound: bool) -> str:
    return "not known" if value is None else f"{'≥ ' if is_bound else ''}{value:.1e}"
