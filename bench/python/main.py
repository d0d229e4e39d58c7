#!/usr/bin/env python3
"""Compares how fast Python loads weights with htensor, numpy.fromfile, numpy.memmap and torch.load.

Each result is the best of several turns.

The arrays of each contender except O_DIRECT are compared with the file after the timed part. Contenders take turns, and
each turn starts with the files dropped from the page cache, in a process of its own. Also measures the import of
htensor, a zero-copy open and the listing of 60,000 tensors.

Usage: main.py [--size 4G] [--turns 3] [--folder FOLDER] [--json FILE] [--smoke]
"""

import argparse
import ctypes
import importlib
import importlib.util
import json
import mmap
import os
import pathlib
import struct
import subprocess
import sys
import threading
import time

import numpy as np

import htensor

LIBC = ctypes.CDLL(None, use_errno=True)
TENSORS = 300
GOALS = []


# Files.


def write_files(folder, size):
    """A safetensors file with 300 tensors, and the same tensors as torch saves them."""
    file = folder / f"weights-{size}.safetensors"
    columns = 4096
    rows = max(1, size // TENSORS // (4 * columns))
    count = rows * columns * 4
    if not file.exists() or file.stat().st_size < count * TENSORS:
        random = np.random.default_rng(1)
        header, data = {}, random.integers(0, 2**32, rows * columns, dtype=np.uint32)
        # Sets the exponents, so that all values are finite and their magnitudes are from 0.5 to 1.
        data = (data & 0x807FFFFF | 0x3F000000).astype(np.uint32)
        for i in range(TENSORS):
            header[f"model.layers.{i}.weight"] = {
                "dtype": "F32", "shape": [rows, columns], "data_offsets": [i * count, (i + 1) * count],
            }  # fmt: skip
        text = json.dumps(header).encode()
        text += b" " * (-(8 + len(text)) % 4096)
        with file.open("wb") as out:
            out.write(struct.pack("<Q", len(text)) + text)
            for i in range(TENSORS):
                data[0] = 0x3F000000 + i
                out.write(data)
            out.flush()
            os.fsync(out.fileno())
    torch_file = None
    if importlib.util.find_spec("torch"):
        torch_file = file.with_suffix(".pt")
        if not torch_file.exists():
            import torch

            tensors = {name: torch.from_numpy(np.array(t.numpy())) for name, t in htensor.open(file).items()}
            torch.save(tensors, torch_file)
            with torch_file.open("rb") as out:
                os.fsync(out.fileno())
    return file, torch_file


def drop(path):
    """Drops a file from the page cache. One call may leave pages that another processor still holds in a batch."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        for _ in range(10):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            pages = -(-len(mapped) // mmap.PAGESIZE)
            cached = (ctypes.c_ubyte * pages)()
            address = np.frombuffer(mapped, np.uint8).ctypes.data
            if LIBC.mincore(ctypes.c_void_p(address), ctypes.c_size_t(len(mapped)), cached) != 0:
                raise SystemExit("mincore failed")
            if np.count_nonzero(np.frombuffer(cached, np.uint8) & 1) * 100 < pages:
                return
            time.sleep(0.2)
    raise SystemExit(f"{path} stays in the page cache")


# Contenders: each returns its arrays by name, except by_direct, which returns the seconds.


def entries(path):
    """Names, shapes and absolute offsets, parsed with json as in a program without a library."""
    with open(path, "rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
    return [(name, item["shape"], 8 + size + item["data_offsets"][0]) for name, item in header.items()]


def by_fromfile(path):
    arrays = {}
    for name, shape, offset in entries(path):
        arrays[name] = np.fromfile(path, np.float32, int(np.prod(shape)), offset=offset).reshape(shape)
    return arrays


def by_memmap(path):
    arrays = {}
    for name, shape, offset in entries(path):
        arrays[name] = np.array(np.memmap(path, np.float32, "r", offset, tuple(shape)))
    return arrays


def by_load_into(path):
    with htensor.open(path) as model:
        arrays = {name: np.empty(tensor.shape, tensor.dtype) for name, tensor in model.items()}
        model.load_into(arrays)
    return arrays


def by_load_file(path):
    from htensor.safetensors.numpy import load_file

    return load_file(path)


def by_load_file_torch(path):
    from htensor.safetensors.torch import load_file

    return load_file(path)


def by_load(path):
    model = htensor.load(path, strategy="read")
    return {name: tensor.numpy() for name, tensor in model.items()}


def by_torch(path):
    import torch

    return torch.load(path)


def by_direct(path, into_new_memory):
    """The disk's limit: 8 threads read with O_DIRECT. Without `into_new_memory`, they reuse buffers that were
    touched before. With it, they read into new memory for the whole file, as a program that keeps the data must."""
    size = os.stat(path).st_size
    block = 4 << 20
    memory = [mmap.mmap(-1, block) for _ in range(8)]
    for part in memory:
        part.write(b"\1" * block)
    whole = memoryview(mmap.mmap(-1, size + block)) if into_new_memory else None
    if whole is not None:
        whole.obj.madvise(mmap.MADV_HUGEPAGE)
    starts = iter(range(0, size, block))
    lock = threading.Lock()
    counts = []
    fd = os.open(path, os.O_RDONLY | os.O_DIRECT)

    def work(part):
        while True:
            with lock:
                at = next(starts, None)
            if at is None:
                return
            counts.append(os.preadv(fd, [part if whole is None else whole[at : at + block]], at))

    begin = time.perf_counter()
    threads = [threading.Thread(target=work, args=(part,)) for part in memory]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    os.close(fd)
    seconds = time.perf_counter() - begin
    # A thread that fails or a short read would make the limit look faster.
    if sum(counts) != size:
        raise SystemExit(f"{path}: read {sum(counts)} of {size} bytes")
    return seconds


CONTENDERS = {
    "htensor.load": by_load,
    "Model.load_into": by_load_into,
    "load_file (numpy)": by_load_file,
    "load_file (torch)": by_load_file_torch,
    "numpy.fromfile": by_fromfile,
    "numpy.memmap": by_memmap,
    "torch.load": by_torch,
}


def as_numpy(array):
    return array if isinstance(array, np.ndarray) else array.numpy()


def turn(name, path, expected_path):
    """In a child: the timed part, then the comparison."""
    if name.startswith("O_DIRECT"):
        print(by_direct(path, name != "O_DIRECT"))
        return
    if "torch" in name:
        import torch  # noqa: F401
    if "load_file" in name:
        importlib.import_module(f"htensor.safetensors.{'torch' if 'torch' in name else 'numpy'}")
    begin = time.perf_counter()
    arrays = CONTENDERS[name](path)
    seconds = time.perf_counter() - begin
    expected = htensor.open(expected_path)
    assert len(arrays) == len(expected)
    for key, tensor in expected.items():
        array = as_numpy(arrays.pop(key))
        assert array.shape == tensor.shape
        if htensor.crc64nvme(np.ascontiguousarray(array).view(np.uint8).reshape(-1)) != htensor.crc64nvme(tensor.data):
            raise SystemExit(f"{name}: tensor {key} differs from the file")
    print(seconds)


def run_turn(name, path, expected_path):
    drop(path)
    done = subprocess.run(
        [sys.executable, __file__, "--turn", name, str(path), str(expected_path)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{name} failed:\n{done.stderr}")
    return float(done.stdout)


# Tasks.


def goal(text, met, figure):
    GOALS.append({"goal": text, "met": bool(met), "figure": figure})
    print(f"  {'met   ' if met else 'MISSED'}  {text}: {figure}")


def best(function, turns=7):
    times = []
    for _ in range(turns):
        begin = time.perf_counter()
        function()
        times.append(time.perf_counter() - begin)
    return min(times)


def cold_load(options):
    file, torch_file = write_files(options.folder, options.size)
    size = file.stat().st_size
    names = ["O_DIRECT", "O_DIRECT, new memory", "htensor.load", "Model.load_into", "numpy.fromfile", "numpy.memmap"]
    if importlib.util.find_spec("htensor.safetensors"):
        names.insert(4, "load_file (numpy)")
        if torch_file:
            names.insert(5, "load_file (torch)")
    if torch_file:
        names.append("torch.load")
    else:
        print("torch is not installed: torch.load is left out")
    seconds = {name: [] for name in names}
    for _ in range(options.turns):
        for name in names:
            path = torch_file if name == "torch.load" else file
            seconds[name].append(run_turn(name, path, file))
    print(f"\ncold load of {size / 2**30:.2f} GiB, {TENSORS} tensors, best of {options.turns} turns")
    limit = min(seconds["O_DIRECT"])
    for name in names:
        took = min(seconds[name])
        print(f"  {name:21} {took:8.3f} s  {size / took / 1e9:6.2f} GB/s  {limit / took:5.2f} of the disk's limit")
    print()
    fastest = {name: min(seconds[name]) for name in names}
    loads = [name for name in names if name.startswith("load_file")] or ["Model.load_into"]
    for name in loads:
        share = limit / fastest[name]
        goal(f"cold {name}: at least 0.9 of the speed of O_DIRECT", share >= 0.9, f"{share:.2f}")
        times = fastest["numpy.fromfile"] / fastest[name]
        goal(f"cold {name}: at least twice as fast as numpy.fromfile", times >= 2, f"{times:.2f} times")
    return {"cold_load": seconds, "bytes": size}


def warm_open(options):
    file, _ = write_files(options.folder, options.size)

    def open_all():
        model = htensor.open(file)
        return {name: tensor.numpy() for name, tensor in model.items()}

    def memmap_all():
        return {name: np.memmap(file, np.float32, "r", offset, tuple(shape)) for name, shape, offset in entries(file)}

    ours, theirs = best(open_all), best(memmap_all)
    first, second = open_all(), memmap_all()
    assert all(first[name][0, 0] == second[name][0, 0] and first[name].shape == second[name].shape for name in second)
    print(f"\nwarm zero-copy open of {TENSORS} tensors: htensor {1e3 * ours:.2f} ms, numpy.memmap {1e3 * theirs:.2f} ms")
    goal("warm zero-copy open of 300 tensors in at most 3 ms", ours <= 3e-3, f"{1e3 * ours:.2f} ms")
    return {"warm_open": {"htensor": ours, "numpy.memmap": theirs}}


def listing(options):
    count = 60_000
    path = options.folder / "many.safetensors"
    header = {
        f"model.layers.{i // 1000}.mlp.experts.{i % 1000}.down_proj.weight": {
            "dtype": "BF16", "shape": [2], "data_offsets": [4 * i, 4 * i + 4],
        }
        for i in range(count)
    }  # fmt: skip
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(4 * count))

    def ours():
        return [(name, t.type, t.shape, t.nbytes) for name, t in htensor.open(path).items()]

    def by_json():
        with open(path, "rb") as file:
            (size,) = struct.unpack("<Q", file.read(8))
            found = json.loads(file.read(size))
        return [(name, i["dtype"], tuple(i["shape"]), i["data_offsets"][1] - i["data_offsets"][0]) for name, i in found.items()]

    assert ours() == by_json()
    took, theirs = best(ours), best(by_json)
    print(f"\nopen and list {count} tensors: htensor {1e3 * took:.1f} ms, json {1e3 * theirs:.1f} ms")
    goal("listing 60,000 tensors in at most 60 ms", took <= 60e-3, f"{1e3 * took:.1f} ms")
    return {"listing": {"htensor": took, "json": theirs}}


def importing(_):
    program = "import time, numpy; b = time.perf_counter(); import htensor; print(time.perf_counter() - b)"
    times = [float(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout) for _ in range(7)]
    print()
    goal("importing htensor, after numpy was imported, in at most 30 ms", min(times) <= 30e-3, f"{1e3 * min(times):.1f} ms")
    return {"import": min(times)}


def parse_size(text):
    return int(float(text.rstrip("KMGkmg")) * {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1].upper(), 1))


def main():
    if len(sys.argv) == 5 and sys.argv[1] == "--turn":
        turn(*sys.argv[2:])
        return 0
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=parse_size, default=4 << 30, help="bytes of the weights, such as 4G")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path(__file__).parents[2] / "build" / "bench-data")
    parser.add_argument("--json", type=pathlib.Path, help="also writes all measurements to this file")
    parser.add_argument("--smoke", action="store_true", help="small files and one turn: checks the program, not the speed")
    options = parser.parse_args()
    if options.smoke:
        options.size, options.turns = 32 << 20, 1
    options.folder.mkdir(parents=True, exist_ok=True)
    measurements = {}
    for task in (importing, warm_open, listing, cold_load):
        measurements |= task(options)
    if options.json:
        options.json.write_text(json.dumps({**measurements, "goals": GOALS}, indent=1))
    return 0 if options.smoke or all(item["met"] for item in GOALS) else 1


if __name__ == "__main__":
    sys.exit(main())
