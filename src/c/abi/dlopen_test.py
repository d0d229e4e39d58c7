#!/usr/bin/env python3
"""Loads libhtensor-c.so into Python with ctypes and calls its functions.

Usage: dlopen_test.py LIBRARY COMPILER SANITIZERS
If the test is skipped, prints the reason and exits with 77.
"""

import ctypes
import os
import pathlib
import subprocess
import sys
import tempfile


def find_sanitizer_runtime(compiler):
    """The path of the sanitizer's runtime, which must be loaded before a sanitized library."""
    for name in ("libclang_rt.asan-x86_64.so", "libasan.so"):
        path = subprocess.run([compiler, f"-print-file-name={name}"], capture_output=True, text=True).stdout.strip()
        if os.path.isabs(path) and os.path.exists(path):
            return path
    print("skipped: the shared runtime of the sanitizer was not found")
    sys.exit(77)


def main():
    path, sanitizers = sys.argv[1], sys.argv[3] if len(sys.argv) > 3 else ""
    if "thread" in sanitizers:
        print("skipped: the thread sanitizer cannot be loaded into Python")
        sys.exit(77)
    if sanitizers and "LD_PRELOAD" not in os.environ:
        os.environ.update(LD_PRELOAD=find_sanitizer_runtime(sys.argv[2]), ASAN_OPTIONS="detect_leaks=0")
        os.execv(sys.executable, [sys.executable, *sys.argv])

    library = ctypes.CDLL(path)
    for name in ("ht_version", "ht_error_text", "ht_model_format", "ht_status_name"):
        getattr(library, name).restype = ctypes.c_char_p
    library.ht_model_count.restype = ctypes.c_size_t
    library.ht_crc64nvme.restype = ctypes.c_uint64
    library.ht_crc64nvme.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64]
    assert library.ht_version().count(b".") == 2
    assert library.ht_crc64nvme(b"123456789", 9, 0) == 0xAE8B14860A799888

    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "a.safetensors"
        header = b'{"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
        file.write_bytes(len(header).to_bytes(8, "little") + header + b"\0\0\x80\x3f\0\0\0\x40")
        model, error = ctypes.c_void_p(), ctypes.c_void_p()
        assert library.ht_model_open(os.fsencode(file), None, ctypes.byref(model), ctypes.byref(error)) == 0
        assert library.ht_model_format(model) == b"safetensors"
        assert library.ht_model_count(model) == 1
        tensor = ctypes.c_void_p()
        assert library.ht_model_get(model, b"t", ctypes.c_size_t(0), ctypes.byref(tensor), None) == 0
        library.ht_model_free(model)
        values = (ctypes.c_float * 2)()
        assert library.ht_tensor_read_f32(tensor, None, ctypes.c_size_t(0), values, ctypes.c_size_t(2), None) == 0
        assert list(values) == [1, 2]
        library.ht_tensor_free(tensor)
        file.write_bytes(b"not a model")
        status = library.ht_model_open(os.fsencode(file), None, ctypes.byref(model), ctypes.byref(error))
        assert library.ht_status_name(status) == b"bad_magic", status
        assert os.fsencode(file) in library.ht_error_text(error)
        library.ht_error_free(error)
    print("dlopen_test: passed")


if __name__ == "__main__":
    main()
