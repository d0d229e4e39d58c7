#!/usr/bin/env python3
"""Runs mlp with F32, BF16 and Q8_0 weights and checks its accuracy: lane_test.py HTENSOR MLP LANE

The threshold is in thresholds/LANE.txt, else in thresholds/default.txt. Without numpy, the test is skipped (77).
"""

import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent


def threshold_of(lane):
    path = HERE / "thresholds" / f"{lane}.txt"
    return float((path if path.exists() else HERE / "thresholds" / "default.txt").read_text())


def interpreter_with_numpy():
    """A python3 with numpy, or None. Debian has numpy for /usr/bin/python3, which is not always first on PATH."""
    for python in (sys.executable, "/usr/bin/python3"):
        if pathlib.Path(python).exists() and subprocess.run([python, "-c", "import numpy"], stderr=subprocess.DEVNULL,
                                                            check=False).returncode == 0:
            return python
    return None


def main():
    htensor, mlp, lane = sys.argv[1:]
    python = interpreter_with_numpy()
    if python is None:
        print("numpy is not installed: python3-numpy")
        return 77
    threshold = threshold_of(lane)
    with tempfile.TemporaryDirectory() as folder:
        trained = pathlib.Path(folder, "mlp.safetensors")
        bf16 = pathlib.Path(folder, "mlp.bf16.safetensors")
        q8_0 = pathlib.Path(folder, "mlp.q8_0.gguf")
        subprocess.run([python, HERE / "train.py", trained], check=True)
        subprocess.run([htensor, "convert", trained, bf16, "--cast", "*.weight=BF16", "--round"], check=True)
        subprocess.run([htensor, "convert", trained, q8_0, "--quantize", "*.weight=Q8_0"], check=True)
        for model in (trained, bf16, q8_0):
            output = subprocess.run([mlp, model], check=True, capture_output=True, text=True).stdout
            print(output, end="")
            accuracy = float(re.search(r"accuracy ([\d.]+)$", output)[1])
            if accuracy < threshold:
                print(f"{lane}: accuracy {accuracy} is below {threshold}")
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
