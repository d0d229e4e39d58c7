#!/usr/bin/env python3
"""Verbs that read tensor data work on a file that is larger than the address space limit (`ulimit -v`).

Usage: address_space_test.py PROGRAM. Exits with 77 and prints the reason if it is skipped.
"""

import json
import resource
import subprocess
import sys
import tempfile

FILE_BYTES = 4 << 30
LIMIT_BYTES = 1 << 30


def limit():
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT_BYTES, LIMIT_BYTES))


def main():
    program = sys.argv[1]
    if subprocess.run([program, "version"], preexec_fn=limit, capture_output=True, check=False).returncode != 0:
        print("skipped: the program does not start in 1 GiB of addresses; sanitizers need more")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/model.safetensors"
        synth = [program, "synth", path, "--preset", "matrix", "--dtype", "F32", "--size", "4G", "--sparse"]
        subprocess.run(synth, check=True, capture_output=True)

        def run(*arguments, stdout=subprocess.PIPE):
            done = subprocess.run([program, *arguments], preexec_fn=limit, stdout=stdout, stderr=subprocess.PIPE,
                                  text=True, check=False)
            if done.returncode != 0:
                sys.exit(f"htensor {' '.join(arguments)} ended with {done.returncode}:\n{done.stderr}")
            return done.stdout

        listed = json.loads(run("ls", path, "--json"))
        assert listed["total_bytes"] >= FILE_BYTES // 2, listed["total_bytes"]
        name = listed["tensors"][0]["name"]
        shown = json.loads(run("show", path, name, "--slice", "0:2,0:2", "--json"))
        assert len(shown["values"]) == 4, shown
        run("hash", path)
        run("load", path, "--strategy", "mapped", "--budget", "16G")
        run("residency", path, "--json")
        run("evict", path)
        run("convert", path, f"{folder}/model.irpa")
        run("diff", path, f"{folder}/model.irpa")
        run("export", path, name, "-o", "-", stdout=subprocess.DEVNULL)
        # Many tensors, each of which fits into the address space.
        several = f"{folder}/several.safetensors"
        synth = [program, "synth", several, "--preset", "llama-1b", "--dtype", "F32", "--size", "4G", "--sparse"]
        subprocess.run(synth, check=True, capture_output=True)
        run("convert", several, f"{folder}/several.gguf")
        run("diff", several, f"{folder}/several.gguf")


main()
