"""bench/python/main.py."""

import importlib.util
import pathlib

import pytest

MAIN = pathlib.Path(__file__).resolve().parents[2] / "bench" / "python" / "main.py"


@pytest.fixture
def benchmark(monkeypatch):
    spec = importlib.util.spec_from_file_location("benchmark_main", MAIN)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    # Memory file systems do not support direct reads.
    monkeypatch.setattr(module.os, "O_DIRECT", 0)
    return module


@pytest.mark.parametrize("into_new_memory", [False, True])
def test_direct_reads_must_read_the_whole_file(benchmark, monkeypatch, tmp_path, into_new_memory):
    path = tmp_path / "file"
    path.write_bytes(bytes((9 << 20) + 5))
    assert benchmark.by_direct(path, into_new_memory) > 0

    preadv = benchmark.os.preadv
    monkeypatch.setattr(benchmark.os, "preadv", lambda fd, buffers, at: preadv(fd, [memoryview(buffers[0])[: 1 << 20]], at))
    with pytest.raises(SystemExit, match=f"read {3 << 20} of {(9 << 20) + 5} bytes"):
        benchmark.by_direct(path, into_new_memory)
