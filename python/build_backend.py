"""Builds wheels of htensor: an in-tree backend of PEP 517 that needs no other Python package and runs CMake.

`pip install .` calls `build_wheel`. The build folder is build/python, or $HTENSOR_BUILD_DIR, and is kept: a second build
compiles what changed. $CMAKE_ARGS are options for CMake.
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "python" / "htensor"
# Libraries that every Linux with Python has. Other libraries are copied into the wheel.
SYSTEM_LIBRARIES = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "ld-linux-x86-64.so.2",
          "ld-linux-aarch64.so.1", "libgcc_s.so.1", "libstdc++.so.6", "linux-vdso.so.1"}  # fmt: skip


def version():
    found = re.search(r"project\(htensor VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8"))
    return found[1]


def platform_tag():
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")


def run(*command):
    """Runs a program. Its output goes to stderr, because pip uses stdout."""
    done = subprocess.run([str(word) for word in command], stdout=sys.stderr, check=False)
    if done.returncode:
        raise SystemExit(f"htensor: '{command[0]}' failed; see its output, or install the packages with ./dev python")


def build_extension():
    """Compiles the extension. Returns its path."""
    if not shutil.which("cmake"):
        raise SystemExit("htensor: cmake is missing; install it with: apt install cmake ninja-build g++")
    include = sysconfig.get_path("include")
    if not (pathlib.Path(include) / "Python.h").exists():
        raise SystemExit("htensor: Python.h is missing; install it with: apt install python3-dev")
    folder = pathlib.Path(os.environ.get("HTENSOR_BUILD_DIR") or ROOT / "build" / "python")
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    run("cmake", "-S", ROOT, "-B", folder, *generator, "-DCMAKE_BUILD_TYPE=Release", "-DHT_TESTS=OFF", "-DHT_PROGRAM=OFF",
        "-DHT_EXAMPLES=OFF", "-DHT_PYTHON=ON", f"-DHT_PYTHON_INCLUDE={include}", *shlex.split(os.environ.get("CMAKE_ARGS", "")))  # fmt: skip
    jobs = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL") or str(os.cpu_count() or 1)
    run("cmake", "--build", folder, "--target", "htensor_python", "-j", jobs)
    return folder / "python" / "htensor" / "_native.abi3.so"


def libraries_of(extension):
    """The shared libraries that the extension needs and that not every system has."""
    listed = subprocess.run(["ldd", str(extension)], capture_output=True, text=True, check=True).stdout
    found = re.findall(r"^\s*(\S+) => (/\S+)", listed, re.MULTILINE)
    return [(name, pathlib.Path(path)) for name, path in found if name not in SYSTEM_LIBRARIES]


def metadata():
    lines = ["Metadata-Version: 2.1", "Name: htensor", f"Version: {version()}",
             "Summary: Opens, verifies, converts and writes model weights", "License: Apache-2.0",
             "Requires-Python: >=3.11", "Provides-Extra: arrays", "Requires-Dist: numpy>=1.24; extra == 'arrays'",
             "Description-Content-Type: text/markdown", ""]  # fmt: skip
    return "\n".join(lines) + "\n" + (ROOT / "README.md").read_text(encoding="utf-8")


def wheel_facts():
    return f"Wheel-Version: 1.0\nGenerator: htensor\nRoot-Is-Purelib: false\nTag: cp311-abi3-{platform_tag()}\n"


def info_folder():
    return f"htensor-{version()}.dist-info"


class Wheel:
    """A zip file that ends with a record of its contents. Equal inputs give equal bytes."""

    def __init__(self, path):
        self.zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)
        self.record = []

    def add(self, name, data, mode=0o644):
        if isinstance(data, str):
            data = data.encode()
        entry = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
        entry.external_attr = (0o100000 | mode) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        self.zip.writestr(entry, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.record.append(f"{name},sha256={digest},{len(data)}")

    def close(self):
        name = f"{info_folder()}/RECORD"
        self.record.append(f"{name},,")
        entry = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
        entry.external_attr = 0o100644 << 16
        self.zip.writestr(entry, "\n".join(self.record) + "\n")
        self.zip.close()


def add_info(wheel):
    wheel.add(f"{info_folder()}/METADATA", metadata())
    wheel.add(f"{info_folder()}/WHEEL", wheel_facts())
    wheel.add(f"{info_folder()}/LICENSE", (ROOT / "LICENSE").read_bytes())


# The functions of PEP 517 and PEP 660.


def get_requires_for_build_wheel(config_settings=None):
    return []


def get_requires_for_build_sdist(config_settings=None):
    return []


def get_requires_for_build_editable(config_settings=None):
    return []


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    folder = pathlib.Path(metadata_directory) / info_folder()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "METADATA").write_text(metadata(), encoding="utf-8")
    (folder / "WHEEL").write_text(wheel_facts(), encoding="utf-8")
    return folder.name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    extension = build_extension()
    name = f"htensor-{version()}-cp311-abi3-{platform_tag()}.whl"
    wheel = Wheel(pathlib.Path(wheel_directory) / name)
    for path in sorted(PACKAGE.rglob("*")):
        if path.suffix in (".py", ".pyi") or path.name == "py.typed":
            wheel.add(path.relative_to(PACKAGE.parent).as_posix(), path.read_bytes())
    wheel.add("htensor/_native.abi3.so", extension.read_bytes(), 0o755)
    for soname, path in libraries_of(extension):
        wheel.add(f"htensor/{soname}", path.read_bytes(), 0o755)
    add_info(wheel)
    wheel.close()
    return name


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """A wheel that points to this folder; the extension and its libraries are put beside the sources."""
    extension = build_extension()
    for name, path in [(extension.name, extension), *libraries_of(extension)]:
        shutil.copy(path, PACKAGE / name)
    name = f"htensor-{version()}-cp311-abi3-{platform_tag()}.whl"
    wheel = Wheel(pathlib.Path(wheel_directory) / name)
    wheel.add("htensor.pth", f"{PACKAGE.parent}\n")
    add_info(wheel)
    wheel.close()
    return name


def build_sdist(sdist_directory, config_settings=None):
    """Builds a .tar.gz of the files that git tracks; without git, of all files outside of build/."""
    base = f"htensor-{version()}"
    has_git = shutil.which("git") is not None
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False) if has_git else None
    if listed is not None and listed.returncode == 0:
        names = sorted(name for name in listed.stdout.decode().split("\0") if name)
    else:
        paths = (path.relative_to(ROOT) for path in ROOT.rglob("*") if path.is_file())
        names = sorted(str(path) for path in paths if path.parts[0] != "build")
    target = pathlib.Path(sdist_directory) / f"{base}.tar.gz"
    with tarfile.open(target, "w:gz", format=tarfile.PAX_FORMAT) as archive:
        facts = metadata().encode()
        entry = tarfile.TarInfo(f"{base}/PKG-INFO")
        entry.size = len(facts)
        archive.addfile(entry, io.BytesIO(facts))
        for name in names:
            archive.add(ROOT / name, f"{base}/{name}", recursive=False)
    return target.name
