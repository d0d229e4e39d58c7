"""A drop-in for the `safetensors` package, on H-Tensor's reader and writer.

    import htensor.safetensors as safetensors
    from htensor.safetensors.torch import load_file, save_file

    with safetensors.safe_open("model.safetensors", framework="pt") as f:
        rows = f.get_slice("embedding")[:1024]

Signatures, defaults, texts of SafetensorError and the bytes that are written are those of the reference package,
safetensors 0.8.
For a program that cannot be edited, call `install()` before it imports `safetensors`:

    python -c "import htensor.safetensors as s; s.install(); import runpy; runpy.run_path('train.py')"

Differences: files are checked more strictly (duplicate keys are refused); an error has the attributes `code`,
`rule`, `hint`, `path`, `tensor` and `offset`; `__metadata__` is written in the order of its keys; slices for
numpy may have negative bounds; `load_file` reads a file that is not in the page cache at the speed of the
disk.
"""

from ._errors import SafetensorError
from ._reader import PySafeSlice, _safe_open_handle, safe_open
from ._writer import TensorSpec, deserialize, serialize, serialize_file


def install() -> None:
    """Makes `import safetensors` and `import safetensors.torch` return this package and its modules.

    Call it before the program imports `safetensors`: names that were imported earlier still belong to the reference
    package. `importlib.metadata.version("safetensors")` works, too. A second call has no effect.
    """
    # importlib.metadata is slow to import.
    from ._install import replace_package

    replace_package()


# The release of the reference package that this package reproduces.
__version__ = "0.8.0"

__all__ = [
    "PySafeSlice",
    "SafetensorError",
    "TensorSpec",
    "deserialize",
    "install",
    "safe_open",
    "serialize",
    "serialize_file",
]
