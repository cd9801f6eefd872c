"""The functions of `passes` in C, for float32 and float64 on a CPU.

passes.c is compiled for this machine when it is first needed, which takes a few seconds, and kept in the user's cache.
Where there is no C compiler with OpenMP, `available` says no, and torch does the work.
"""

import ctypes
import functools
import hashlib
import os
import platform
import re
import shlex
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from stcl.operators.passes import dft_of
from stcl.operators.weights import Weights

SOURCE = Path(__file__).with_name("passes.c")
HEADERS = [SOURCE.with_name(name) for name in ("matrix.h", "gelu.h", "spectrum.h")]
REALS = {torch.float32: "float", torch.float64: "double"}
_PROTOTYPE = re.compile(r"^(void|long) (\w+)\(([^)]*)\) \{", re.MULTILINE)  # it matches functions that are not static
# Without errno and traps, the GELU is done in vectors. Nothing here changes the order of a sum.
FLAGS = ["-O3", "-march=native", "-std=gnu11", "-fopenmp", "-fno-math-errno", "-fno-trapping-math", "-fPIC", "-shared"]
if platform.machine() in ("x86_64", "AMD64"):
    FLAGS.append("-mprefer-vector-width=512")


def available(field: Tensor) -> bool:
    """Whether there is a library for this tensor."""
    return type(field) is Tensor and field.device.type == "cpu" and _library(field.dtype) is not None


def forward(
    x: Tensor, dx: Tensor | None, weights: Weights, keep: bool = True
) -> tuple[Tensor, Tensor | None, tuple[Tensor, ...]]:
    """As `passes.forward`; what is kept is one array of numbers. Without `keep` it is of no use."""
    library, size = _library(x.dtype), _Size.of(x, dx, weights)
    assert library is not None, "`available` was not asked"
    x, flat = x.contiguous(), [w.contiguous() for w in weights.flat()]
    kept, scratch = x.new_empty(library.kept_size(size, keep)), x.new_empty(library.scratch_size(size, False))
    y = x.new_empty(*x.shape[:-1], size.outputs)
    dy = None if dx is None else x.new_empty(len(x), size.q, *y.shape[1:])
    transforms = _transforms(x, dx, weights.modes)
    given = None if dx is None else dx.contiguous()
    library.forward(size, *transforms, _pointers(flat, x), x, given, keep, kept, scratch, y, dy)
    return y, dy, (kept,)


def backward(
    x: Tensor,
    dx: Tensor | None,
    weights: Weights,
    kept: tuple[Tensor, ...],
    y_bar: Tensor,
    dy_bar: Tensor | None,
    inputs: bool,
) -> tuple[Tensor | None, Tensor | None, Weights]:
    """As `passes.backward`."""
    library, size = _library(x.dtype), _Size.of(x, dx, weights)
    assert library is not None, "`available` was not asked"
    x, y_bar, flat = x.contiguous(), y_bar.contiguous(), [w.contiguous() for w in weights.flat()]
    dx, dy_bar = (None if d is None else d.contiguous() for d in (dx, dy_bar))
    x_bar, dx_bar = (None if d is None or not inputs else torch.empty_like(d) for d in (x, dx))
    bars, scratch = [torch.empty_like(w) for w in flat], x.new_empty(library.scratch_size(size, True))
    transforms = _transforms(x, dx, weights.modes)
    pointers, bar_pointers = _pointers(flat, x), _pointers(bars, x)
    library.backward(
        size, *transforms, pointers, x, dx, *kept, y_bar, dy_bar, scratch, inputs, x_bar, dx_bar, bar_pointers
    )
    return x_bar, dx_bar, Weights.of(bars)


class _Size(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_long)
        for name in (
            "threads", "samples", "q", "nx", "ny", "modes", "inputs", "c", "layers", "hidden", "outputs",
            "dx_samples", "dx_nx", "dx_ny",
        )
    ]  # fmt: skip

    @classmethod
    def of(cls, x: Tensor, dx: Tensor | None, weights: Weights) -> "_Size":
        samples, nx, ny, inputs = x.shape
        dx_samples, q, dx_nx, dx_ny = (0, 0, 0, 0) if dx is None else dx.shape[:4]
        (outputs, hidden), c = weights.output.shape, len(weights.lift)
        shape = (samples, q, nx, ny, weights.modes, inputs, c, len(weights.bias), hidden, outputs)
        return cls(torch.get_num_threads(), *shape, dx_samples, dx_nx, dx_ny)


class _Transform(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in ("analysis_y", "synthesis_y", "waves_x")]

    @classmethod
    def of(cls, fields: Tensor, modes: int) -> "_Transform":
        dft = dft_of(fields, modes)  # a cache keeps the matrices
        return cls(dft.analysis_y.data_ptr(), dft.synthesis_y.data_ptr(), dft.waves_x.data_ptr())


def _transforms(x: Tensor, dx: Tensor | None, modes: int) -> tuple[_Transform, _Transform]:
    own = _Transform.of(x, modes)
    return own, own if dx is None else _Transform.of(dx, modes)


def _pointers(tensors: list[Tensor], like: Tensor) -> Any:
    """An array of pointers to numbers of the same kind."""
    for tensor in tensors:
        if tensor.dtype != like.dtype or tensor.device != like.device:
            raise TypeError(f"expected {like.dtype} weights on the {like.device}, got {tensor.dtype}, {tensor.device}")
    return (ctypes.c_void_p * len(tensors))(*(tensor.data_ptr() for tensor in tensors))


def _reals(dtype: torch.dtype) -> type:
    """The argument type of pointers to numbers: it takes tensors, and refuses what C would read as something else."""

    class Reals(ctypes.c_void_p):
        @classmethod
        def from_param(cls, x: Any) -> "Reals":
            if x is None:
                return cls(None)
            if not isinstance(x, Tensor) or x.dtype != dtype or x.device.type != "cpu" or not x.is_contiguous():
                raise TypeError(f"expected a contiguous {dtype} tensor in host memory, got {type(x).__name__}")
            return cls(x.data_ptr())

    return Reals


def _declare(library: ctypes.CDLL, dtype: torch.dtype) -> None:
    """Give every function of the library the argument types that its prototype in passes.c has."""
    kinds: dict[str, Any] = {
        "Size *": ctypes.POINTER(_Size),
        "Transform *": ctypes.POINTER(_Transform),
        "real *": _reals(dtype),
        "real *const *": ctypes.POINTER(ctypes.c_void_p),
        "long": ctypes.c_long,
    }
    sources = "".join(path.read_text() for path in (*HEADERS, SOURCE))
    for result, name, parameters in _PROTOTYPE.findall(sources):
        function = getattr(library, name)
        function.restype = ctypes.c_long if result == "long" else None
        declared = (" ".join(parameter.split()).removeprefix("const ") for parameter in parameters.split(","))
        function.argtypes = [kinds[re.sub(r" ?\w+$", "", parameter)] for parameter in declared]


@functools.cache
def _library(dtype: torch.dtype) -> ctypes.CDLL | None:
    """passes.c for one type of number, compiled once for this source, compiler and kind of machine."""
    if dtype not in REALS:
        return None
    compiler = shlex.split(os.environ.get("CC", "cc"))
    command = [*compiler, *FLAGS, f"-DREAL={REALS[dtype]}", "-lm"]
    try:
        version = subprocess.run([*compiler, "--version"], check=True, capture_output=True).stdout
        sources = [path.read_bytes() for path in (SOURCE, *HEADERS)]
        identity = hashlib.sha256(b"\0".join([*sources, *map(str.encode, command), version, _machine()]))
        path = _cache() / f"passes-{identity.hexdigest()[:24]}.so"
        if not path.exists():
            with tempfile.TemporaryDirectory(dir=path.parent) as folder:
                built = Path(folder) / path.name
                subprocess.run([*command, str(SOURCE), "-o", str(built), "-lm"], check=True, capture_output=True)
                built.replace(path)
        library = ctypes.CDLL(str(path))
    except (OSError, subprocess.CalledProcessError):
        return None
    _declare(library, dtype)
    return library


def _machine() -> bytes:
    """What -march=native depends on."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = [platform.processor()]
    kept = {line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part"))}
    return "\n".join([platform.platform(), *sorted(kept)]).encode()


def _cache() -> Path:
    folder = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "stcl"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
