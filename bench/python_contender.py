"""Contenders in Python: bench/python_contender.cpp starts this script once and sends requests to its standard input.

The first answer names the modules that can be imported and their versions. Each request is one line, and so is each
answer: the seconds of the timed part, then numbers that describe the result, computed after the timed part.

  load NAME DTYPE BYTES                   followed by that many bytes
  cast MODULE SOURCE DTYPE                Adler-32 of the result
  statistics MODULE SOURCE                zeros, NaNs, infinities, minimum, maximum, sum, sum of squares
  matmul MODULE A B EXPECTED EXTENT       largest difference to EXPECTED, relative to the largest value in EXPECTED
"""

import os
import signal
import sys
import time
import zlib

try:
    import numpy as np
except Exception:  # A broken installation raises other errors than ImportError.
    sys.exit(0)
try:
    import torch
except Exception:
    torch = None

# numpy has no BF16, so numpy stores the bits of BF16.
NUMPY_DTYPES = {"F16": np.float16, "BF16": np.int16, "F32": np.float32, "F64": np.float64}


def as_torch(array, dtype):
    """A torch tensor that shares the memory of the array."""
    tensor = torch.from_numpy(array)
    return tensor.view(torch.bfloat16) if dtype == "BF16" else tensor


def timed(function):
    begin = time.perf_counter()
    result = function()
    return time.perf_counter() - begin, result


class Contender:
    def __init__(self):
        self.arrays = {}
        self.dtypes = {}
        self.target = np.ones(0, np.uint8)

    def load(self, name, dtype, count):
        memory = np.empty(int(count), np.uint8)
        sys.stdin.buffer.readinto(memory)
        self.arrays[name] = memory.view(NUMPY_DTYPES[dtype])
        self.dtypes[name] = dtype
        return 0.0, []

    def cast(self, module, source, dtype):
        """Casts into memory that was touched before, as cast_lossy_into does: astype would measure page faults too."""
        array = self.arrays[source]
        needed = array.size * np.dtype(NUMPY_DTYPES[dtype]).itemsize
        if self.target.size < needed:
            self.target = np.ones(needed, np.uint8)
        target = self.target[:needed].view(NUMPY_DTYPES[dtype])
        # Overwrites the result of the previous turn, so that a turn that writes nothing is detected.
        target.fill(1)
        if module == "numpy":
            seconds, _ = timed(lambda: np.copyto(target, array, casting="unsafe"))
        else:
            from_tensor, to_tensor = as_torch(array, self.dtypes[source]), as_torch(target, dtype)
            seconds, _ = timed(lambda: to_tensor.copy_(from_tensor))
        return seconds, [zlib.adler32(target)]

    def statistics(self, module, source):
        """The same as ht::statistics without subnormals, argmin, argmax and squared deviations, all sums in F64."""
        array = self.arrays[source]

        def by_numpy():
            return [array.size - np.count_nonzero(array), np.count_nonzero(np.isnan(array)),
                    np.count_nonzero(np.isinf(array)), array.min(), array.max(), array.sum(dtype=np.float64),
                    np.einsum("i,i->", array, array, dtype=np.float64)]

        if module == "numpy":
            return timed(by_numpy)
        tensor = as_torch(array, self.dtypes[source])

        def by_torch():
            minimum, maximum = torch.aminmax(tensor)
            return [tensor.numel() - torch.count_nonzero(tensor), torch.count_nonzero(torch.isnan(tensor)),
                    torch.count_nonzero(torch.isinf(tensor)), minimum, maximum, tensor.sum(dtype=torch.float64),
                    torch.linalg.vector_norm(tensor, dtype=torch.float64) ** 2]

        return timed(by_torch)

    def matmul(self, module, a, b, expected, extent):
        """Returns a new matrix, as ht::matmul does."""
        a, b, expected = (self.arrays[name].reshape(int(extent), -1) for name in (a, b, expected))
        if module == "numpy":
            seconds, product = timed(lambda: np.matmul(a, b))
        else:
            a, b = torch.from_numpy(a), torch.from_numpy(b)
            seconds, product = timed(lambda: torch.matmul(a, b))
            product = product.numpy()
        return seconds, [np.abs(product - expected).max() / np.abs(expected).max()]


def main():
    # The benchmark handles an interrupt between two turns and ends this process by closing its input.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A module that prints must not mix its text into the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    modules = ["numpy", np.__version__]
    if torch:
        # torch may pick fewer threads by itself; the other contenders use all processors.
        torch.set_num_threads(len(os.sched_getaffinity(0)))
        modules += ["torch", torch.__version__]
    print(*modules, file=answers, flush=True)
    contender = Contender()
    for line in iter(sys.stdin.buffer.readline, b""):
        task, *words = line.decode().split()
        seconds, numbers = getattr(contender, task)(*words)
        print(seconds, *(repr(float(number)) for number in numbers), file=answers, flush=True)


if __name__ == "__main__":
    main()
