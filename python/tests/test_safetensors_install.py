"""htensor.safetensors.install() replaces the package `safetensors` for a whole program."""

import importlib.util
import os
import pickle
import subprocess
import sys

import pytest

import htensor.safetensors as safetensors


def run(program, *path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*path, *sys.path])}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_package_and_its_modules_are_replaced():
    if importlib.util.find_spec("numpy") is None:
        pytest.skip("numpy is not installed")
    run("""
import htensor.safetensors as ours
ours.install()
ours.install()
import safetensors, safetensors.numpy, sys
from safetensors import PySafeSlice, SafetensorError, TensorSpec, safe_open
from safetensors.numpy import save
from safetensors._safetensors_rust import SafetensorError as Same
assert safetensors is ours and safetensors.numpy is sys.modules["htensor.safetensors.numpy"]
assert Same is ours.SafetensorError and safe_open is ours.safe_open
assert ours.__name__ == ours.__spec__.name == "htensor.safetensors"
assert sum(type(finder).__name__ == "_Finder" for finder in sys.meta_path) == 1
""")


def test_the_error_has_the_module_of_the_reference_but_pickles_without_it():
    pickled = run("""
import pickle, htensor.safetensors as ours
assert ours.SafetensorError.__module__ == "htensor.safetensors"
ours.install()
import importlib, safetensors
assert safetensors.SafetensorError.__module__ == "safetensors._safetensors_rust"
module = importlib.import_module(safetensors.SafetensorError.__module__)
assert module.SafetensorError is safetensors.SafetensorError
class Own(safetensors.SafetensorError):
    pass
assert type(pickle.loads(pickle.dumps(Own("a")))) is Own
print(pickle.dumps(safetensors.SafetensorError("a", hint="b")).hex())
""")
    # A worker process has possibly not called install().
    error = pickle.loads(bytes.fromhex(pickled))
    assert type(error) is safetensors.SafetensorError and (error.args, error.hint) == (("a",), "b")


def test_torch_is_imported_at_first_use():
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    run("""
import sys, htensor.safetensors
htensor.safetensors.install()
assert "torch" not in sys.modules
from safetensors.torch import save_file
assert save_file.__module__ == "htensor.safetensors.torch" and "torch" in sys.modules
""")


def test_importlib_metadata_finds_the_version():
    out = run("""
import importlib.metadata, importlib.util, htensor.safetensors as ours
ours.install()
assert importlib.util.find_spec("safetensors") is not None
assert importlib.metadata.version("safetensors") == ours.__version__
print(importlib.metadata.metadata("safetensors")["Name"], len(list(importlib.metadata.distributions())) > 0)
""")
    assert out == "safetensors True\n"


def test_a_package_that_was_imported_before_is_replaced(tmp_path):
    (tmp_path / "safetensors").mkdir()
    (tmp_path / "safetensors" / "__init__.py").write_text("old = True")
    (tmp_path / "safetensors" / "torch.py").write_text("old = True")
    run("""
import safetensors.torch
assert safetensors.old
import htensor.safetensors, sys
htensor.safetensors.install()
import safetensors
assert not hasattr(safetensors, "old") and "safetensors.torch" not in sys.modules
""", str(tmp_path))  # fmt: skip


@pytest.mark.parametrize("name", ["flax", "tensorflow", "paddle", "mlx"])
def test_other_frameworks_are_an_import_error(name):
    run(f"""
import htensor.safetensors
htensor.safetensors.install()
try:
    import safetensors.{name}
except ImportError as error:
    assert "use numpy or torch" in str(error), error
else:
    raise AssertionError("imported")
""")


def test_the_package_needs_neither_numpy_nor_torch():
    run("""
import sys
sys.modules["numpy"] = sys.modules["torch"] = None
import ctypes, htensor.safetensors as s
memory = (ctypes.c_char * 8)(*b"12345678")
spec = s.TensorSpec(dtype="float32", shape=[2], data_ptr=ctypes.addressof(memory), data_len=8)
data = s.serialize({"a": spec}, metadata={})
assert s.deserialize(data) == [("a", {"shape": [2], "dtype": "F32", "data": bytearray(b"12345678")})]
""")
