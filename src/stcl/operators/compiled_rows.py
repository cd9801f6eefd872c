"""The functions of `rows` in C, for float32 and float64 on a CPU.

rows.c is compiled for this machine when it is first needed, which takes a few seconds, and kept in the user's cache.
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

from stcl.operators.dft import TruncatedDFT
from stcl.operators.rows import product

SOURCE = Path(__file__).with_name("rows.c")
REALS = {torch.float32: "float", torch.float64: "double"}
_PROTOTYPE = re.compile(r"^(void|long) (\w+)\(([^)]*)\) \{", re.MULTILINE)  # it matches functions that are not static
# Without errno and traps, the GELU is done in vectors. Nothing here changes the order of a sum.
FLAGS = ["-O3", "-march=native", "-std=gnu11", "-fopenmp", "-fno-math-errno", "-fno-trapping-math", "-fPIC", "-shared"]
if platform.machine() in ("x86_64", "AMD64"):
    FLAGS.append("-mprefer-vector-width=512")


def available(field: Tensor) -> bool:
    """Whether there is a library for this tensor."""
    return type(field) is Tensor and field.device.type == "cpu" and _library(field.dtype) is not None


def first_forward(h: Tensor, dh: Tensor, weight: Tensor, dft: TruncatedDFT) -> tuple[Tensor, Tensor]:
    b, nx, _, ny, c = h.shape
    size = _Size.of((b, nx, 1 + dh.shape[2], ny, c), dft)
    local, half = h.new_empty(b, nx, size.r, ny, c), h.new_empty(b, nx, size.r, size.half, c)
    _call("first_forward", size, h, dh, _Strides.of(dh), weight.mT, dft.analysis_y, local, half)
    return local, half


def first_backward(
    h: Tensor, dh: Tensor, weight: Tensor, dft: TruncatedDFT, local_bar: Tensor, half_bar: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    size = _Size.of(local_bar.shape, dft)
    h_bar, weight_bar = torch.empty_like(h), size.sums(weight)
    # Directions that all samples share are met by all threads, those of a sample by one.
    shared = len(dh) == 1
    dh_bar = size.sums(dh) if shared else dh.new_zeros(1, *dh.shape)
    own = dh.numel() if shared else 0
    bars = (local_bar, half_bar, h_bar, dh_bar, _Strides.of(dh_bar[0]), own, weight_bar)
    _call("first_backward", size, h, dh, _Strides.of(dh), weight, dft.analysis_y, *bars)
    return h_bar, dh_bar.sum(0) if shared else dh_bar[0], weight_bar.sum(0)


def block_forward(dual: Tensor, half: Tensor, weight: Tensor, dft: TruncatedDFT) -> tuple[Tensor, Tensor]:
    size, local = _Size.of(dual.shape, dft), torch.empty_like(dual)
    _call("block_forward", size, dual, half, weight.mT, dft.synthesis_y, dft.analysis_y, local)
    return local, half


def block_backward(
    dual: Tensor, weight: Tensor, dft: TruncatedDFT, local_bar: Tensor, half_bar: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    size = _Size.of(dual.shape, dft)
    dual_bar, weight_bar = torch.empty_like(dual), size.sums(weight)
    matrices = (weight, dft.synthesis_y, dft.analysis_y)
    _call("block_backward", size, dual, *matrices, local_bar, half_bar, dual_bar, weight_bar)
    return dual_bar, half_bar, weight_bar.sum(0)


def head_forward(
    dual: Tensor, half: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor, dft: TruncatedDFT
) -> tuple[Tensor, Tensor]:
    size = _Size.of(dual.shape, dft, w2)
    lead, ny = dual.shape[:2], dual.shape[3]
    y, dy = dual.new_empty(*lead, 1, ny, len(w2)), dual.new_empty(*lead, size.r - 1, ny, len(w2))
    _call("head_forward", size, dual, half, dft.synthesis_y, w1.mT, b1, w2, b2, product(w1, w2), y, dy)
    return y, dy


def head_backward(
    dual: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, dft: TruncatedDFT, y_bar: Tensor, dy_bar: Tensor
) -> tuple[Tensor, ...]:
    size, r = _Size.of(dual.shape, dft, w2), product(w1, w2)
    dual_bar, half_bar = torch.empty_like(dual), dual.new_empty(*dual.shape[:3], size.half, size.c)
    sums = [size.sums(x) for x in (w1, b1, w2, r)]
    matrices = (dft.synthesis_y, w1, w1.mT, b1, w2, r, r.mT)
    _call("head_backward", size, dual, *matrices, y_bar, dy_bar, dual_bar, half_bar, *sums)
    return dual_bar, half_bar, *(x.sum(0) for x in sums)


class _Size(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_long)
        for name in ("threads", "samples", "nx", "r", "ny", "c", "half", "hidden", "outputs")
    ]  # fmt: skip

    @classmethod
    def of(cls, dual: tuple[int, ...], dft: TruncatedDFT, w2: Tensor | None = None) -> "_Size":
        outputs, hidden = (0, 0) if w2 is None else w2.shape
        return cls(min(torch.get_num_threads(), dual[0]), *dual, len(dft.analysis_y), hidden, outputs)

    def sums(self, like: Tensor) -> Tensor:
        """Zeros to sum up in, one array per thread."""
        return like.new_zeros(self.threads, *like.shape)


class _Strides(ctypes.Structure):
    _fields_ = [(name, ctypes.c_long) for name in ("sample", "row", "tangent", "node")]

    @classmethod
    def of(cls, dh: Tensor) -> "_Strides":
        """The strides of a contiguous tensor; 0 along axes of one element, which stands for all."""
        return cls(*(stride if n > 1 else 0 for n, stride in zip(dh.shape[:4], dh.contiguous().stride(), strict=False)))


def _call(name: str, size: _Size, first: Tensor, *rest: Any) -> None:
    """Call a function of rows.c. Tensors that it writes must be contiguous; others are made so."""
    library = _library(first.dtype)
    assert library is not None, "`available` was not asked"
    function = getattr(library, name)
    memory = first.new_empty(size.threads, library.scratch(size))
    # The list keeps contiguous copies alive until the function has returned.
    arguments = [x.contiguous() if isinstance(x, Tensor) else x for x in (size, memory, first, *rest)]
    if len(arguments) != len(function.argtypes):
        raise TypeError(f"{name} of rows.c takes {len(function.argtypes)} arguments, got {len(arguments)}")
    function(*arguments)


def _reals(dtype: torch.dtype) -> type:
    """The argument type of pointers to numbers: it takes tensors, and refuses what C would read as something else."""

    class Reals(ctypes.c_void_p):
        @classmethod
        def from_param(cls, x: Any) -> "Reals":
            if not isinstance(x, Tensor) or x.dtype != dtype or x.device.type != "cpu" or not x.is_contiguous():
                raise TypeError(f"expected a contiguous {dtype} tensor in host memory, got {type(x).__name__}")
            return cls(x.data_ptr())

    return Reals


def _declare(library: ctypes.CDLL, dtype: torch.dtype) -> None:
    """Give every function of the library the argument types that its prototype in rows.c has."""
    kinds: dict[str, Any] = {
        "Size *": ctypes.POINTER(_Size),
        "Strides *": ctypes.POINTER(_Strides),
        "real *": _reals(dtype),
        "long": ctypes.c_long,
    }
    for result, name, parameters in _PROTOTYPE.findall(SOURCE.read_text()):
        function = getattr(library, name)
        function.restype = ctypes.c_long if result == "long" else None
        declared = (" ".join(parameter.split()).removeprefix("const ") for parameter in parameters.split(","))
        function.argtypes = [kinds[re.sub(r" ?\w+$", "", parameter)] for parameter in declared]


@functools.cache
def _library(dtype: torch.dtype) -> ctypes.CDLL | None:
    """rows.c for one type of number, compiled once for this source, compiler and kind of machine."""
    if dtype not in REALS:
        return None
    compiler = shlex.split(os.environ.get("CC", "cc"))
    command = [*compiler, *FLAGS, f"-DREAL={REALS[dtype]}", "-lm"]
    try:
        version = subprocess.run([*compiler, "--version"], check=True, capture_output=True).stdout
        identity = hashlib.sha256(b"\0".join([SOURCE.read_bytes(), *map(str.encode, command), version, _machine()]))
        path = _cache() / f"rows-{identity.hexdigest()[:24]}.so"
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
