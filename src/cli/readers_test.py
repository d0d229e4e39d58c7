#!/usr/bin/env python3
"""Other programs read files that htensor has written: numpy reads NPY, plain Python reads safetensors,
and @huggingface/gguf and @huggingface/hub read GGUF and safetensors if HT_NODE_MODULES names a
node_modules folder with these packages.

Usage: readers_test.py HTENSOR. Exits with 77 and prints the reason if it is skipped.
"""

import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

HTENSOR = ""
# The dtypes of NPY: their names in safetensors and their codes in NPY.
NUMPY = {"BOOL": "|b1", "I8": "|i1", "I16": "<i2", "I32": "<i4", "I64": "<i8", "U8": "|u1", "U16": "<u2", "U32": "<u4",
         "U64": "<u8", "F16": "<f2", "F32": "<f4", "F64": "<f8", "C64": "<c8"}
SHAPES = [(), (0,), (3,), (2, 5), (4, 0, 7), (1, 2, 3, 2)]


def run(*arguments, **options):
    return subprocess.run([HTENSOR, *map(str, arguments)], capture_output=True, text=True, check=False, **options)


def find_numpy():
    """Returns a Python that has numpy: this interpreter, or /usr/bin/python3, for which Debian installs it."""
    for python in (sys.executable, "/usr/bin/python3"):
        try:
            if subprocess.run([python, "-c", "import numpy"], capture_output=True, check=False).returncode == 0:
                return python
        except OSError:
            pass
    return None


def write_safetensors(path, tensors, metadata=None):
    """Writes a file without the safetensors package: the length, the JSON, the data."""
    header, data = ({"__metadata__": metadata} if metadata else {}), b""
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def read_safetensors(path):
    """Reads a file with json only. The data must have no gaps."""
    file = path.read_bytes()
    (length,) = struct.unpack("<Q", file[:8])
    header = json.loads(file[8:8 + length])
    metadata, data, end = header.pop("__metadata__", None), file[8 + length:], 0
    for entry in sorted(header.values(), key=lambda each: each["data_offsets"]):
        if entry["data_offsets"][0] != end:
            raise ValueError(f"there is a gap at {end}")
        end = entry["data_offsets"][1]
    if end != len(data):
        raise ValueError("bytes follow the data")
    return {name: (entry["dtype"], tuple(entry["shape"]), data[slice(*entry["data_offsets"])])
            for name, entry in header.items()}, metadata


def all_tensors():
    """Returns tensors of every dtype of NPY, in two of the shapes each, with valid values."""
    import numpy
    random = numpy.random.default_rng(1)
    tensors = {}
    for i, (dtype, code) in enumerate(NUMPY.items()):
        for shape in (SHAPES[i % 6], SHAPES[(i + 3) % 6]):
            wide = random.integers(0, 2 if dtype == "BOOL" else 100, size=shape)
            array = numpy.asarray(wide * (1 + 2j) if dtype == "C64" else wide).astype(code)
            tensors[f"{dtype}_{'x'.join(map(str, shape))}"] = (dtype, shape, array.tobytes())
    return tensors


class Readers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def convert(self, *arguments):
        done = run("convert", "-q", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_numpy_reads_every_npy(self):
        import numpy
        tensors = all_tensors()
        write_safetensors(self.folder / "all.safetensors", tensors)
        for name, (dtype, shape, content) in tensors.items():
            with self.subTest(name):
                target = self.folder / f"{name}.npy"
                done = run("export", "-q", self.folder / "all.safetensors", name, "-o", target)
                self.assertEqual(done.returncode, 0, done.stderr)
                array = numpy.load(target, allow_pickle=False)
                self.assertEqual((array.dtype.str, array.shape), (NUMPY[dtype], shape))
                self.assertEqual(array.tobytes(), content)

    def test_arrays_saved_by_numpy_are_read_equal(self):
        import numpy
        numbers = numpy.arange(24).reshape(2, 3, 4)
        for code in sorted({*NUMPY.values()} - {"|b1"}):
            source = self.folder / "t.npy"
            numpy.save(source, numbers.astype(code))
            self.convert(source, self.folder / "t.safetensors", "--force")
            tensors, _ = read_safetensors(self.folder / "t.safetensors")
            dtype, shape, content = tensors["t"]
            self.assertEqual((NUMPY[dtype], shape), (code, (2, 3, 4)))
            self.assertEqual(content, numbers.astype(code).tobytes())

    def test_plain_python_reads_safetensors(self):
        tensors = all_tensors()
        names = ["$(rm -rf .)", "a b\n\t'\"\\", "é漢字🙂", "../../etc/passwd", ""]
        for i, name in enumerate(names):
            tensors[name] = ("BF16", (2, i), bytes(range(4 * i)))
        metadata = {"format": "pt", "ключ": "\n\"🙂\\"}
        source = self.folder / "all.safetensors"
        write_safetensors(source, tensors, metadata)
        del tensors[""]
        self.convert(source, self.folder / "all.irpa", "--filter", "?*")
        self.convert(self.folder / "all.irpa", self.folder / "back.safetensors")
        self.assertEqual(read_safetensors(self.folder / "back.safetensors"), (tensors, metadata))

    def read_by_node(self, kind, path):
        """Returns the JSON that a Hugging Face package reads; None if the package is missing, which is printed."""
        modules = os.environ.get("HT_NODE_MODULES", "")
        package = {"gguf": "gguf", "safetensors": "hub"}[kind]
        if shutil.which("node") is None or not pathlib.Path(modules, "@huggingface", package).is_dir():
            print(f"skipped: @huggingface/{package} not found (needs node, and a node_modules folder with the package, "
                  "named by HT_NODE_MODULES)")
            return None
        script = pathlib.Path(__file__).with_suffix(".mjs")
        read = subprocess.run(["node", str(script), modules, kind, str(path)], capture_output=True, text=True, check=False)
        self.assertEqual(read.returncode, 0, read.stderr)
        return json.loads(read.stdout)

    def test_huggingface_reads_gguf(self):
        source, target = self.folder / "m.safetensors", self.folder / "m.gguf"
        write_safetensors(source, {"a.weight": ("F32", (2, 3), bytes(24)), "b": ("F16", (5,), bytes(10))})
        self.convert(source, target)
        result = self.read_by_node("gguf", target)
        if result is not None:
            reported = {each["name"]: (each["dtype"], each["shape"]) for each in result["tensorInfos"]}
            self.assertEqual(reported, {"a.weight": (0, [3, 2]), "b": (1, [5])})

    def test_huggingface_reads_quantized_gguf_and_its_metadata(self):
        source, target = self.folder / "m.gguf", self.folder / "copy.gguf"
        self.assertEqual(run("synth", "-q", source, "--preset", "llama-1b-q4_k_m", "--size", "4M").returncode, 0)
        self.convert(source, self.folder / "m.irpa")
        self.convert(self.folder / "m.irpa", target)
        result = self.read_by_node("gguf", target)
        if result is None:
            return
        listed = json.loads(run("ls", "--json", source).stdout)
        numbers = {"F32": 0, "F16": 1, "Q4_K": 12, "Q6_K": 14}
        reported = {each["name"]: (each["dtype"], each["shape"][::-1]) for each in result["tensorInfos"]}
        self.assertEqual(reported, {each["name"]: (numbers[each["dtype"]], each["shape"]) for each in listed["tensors"]})
        # The package adds fields of the header to the metadata.
        for key, value in listed["metadata"].items():
            if isinstance(value, (str, int)):
                self.assertEqual(result["metadata"][key], value, key)

    def test_huggingface_reads_safetensors(self):
        tensors = {"a": ("F32", (2, 3), bytes(24)), "é漢字🙂": ("BF16", (5,), bytes(10)), "none": ("F8_E4M3", (0, 7), b"")}
        metadata = {"format": "pt"}
        write_safetensors(self.folder / "s.safetensors", tensors, metadata)
        self.convert(self.folder / "s.safetensors", self.folder / "model.safetensors")
        result = self.read_by_node("safetensors", self.folder)
        if result is None:
            return
        header = result["header"]
        self.assertEqual(header.pop("__metadata__"), metadata)
        reported = {name: (each["dtype"], tuple(each["shape"])) for name, each in header.items()}
        self.assertEqual(reported, {name: (dtype, shape) for name, (dtype, shape, _) in tensors.items()})

    def test_huggingface_reads_shards_and_their_index(self):
        names = [f"model.layers.{i}.weight" for i in range(7)]
        write_safetensors(self.folder / "s.safetensors", {name: ("F16", (8, 8), bytes(128)) for name in names})
        self.convert(self.folder / "s.safetensors", self.folder / "model.safetensors", "--shard-size", "300")
        result = self.read_by_node("safetensors", self.folder)
        if result is None:
            return
        self.assertTrue(result["sharded"])
        self.assertEqual(list(result["index"]["weight_map"]), names)
        self.assertEqual([name for header in result["headers"].values() for name in header if name != "__metadata__"], names)


def main():
    global HTENSOR
    HTENSOR = os.path.abspath(sys.argv.pop(1))
    python = find_numpy()
    if python is None:
        print("skipped: numpy not found (python3-numpy)")
        sys.exit(77)
    if python != sys.executable and "HT_RESTARTED_FOR_NUMPY" not in os.environ:
        os.execve(python, [python, __file__, HTENSOR], {**os.environ, "HT_RESTARTED_FOR_NUMPY": "1"})
    unittest.main()


if __name__ == "__main__":
    main()
