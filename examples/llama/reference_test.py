#!/usr/bin/env python3
"""Compares logits of examples/llama with a forward pass in numpy, in F64, on small models of `htensor synth`.

Usage: reference_test.py HTENSOR LLAMA. If numpy is missing, prints the reason and exits with 77.

The error of each logit is at most BOUND times the largest logit, which allows for the roundings of all
layers. INT8_BOUND is for int8 activations: the weights are the same, and activations are rounded to 7 bits
and a sign. With the weights of Q4_K_M, each run of 256 activations has one scale.
"""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest


def use_interpreter_with_numpy():
    """Debian installs numpy for /usr/bin/python3, which is not always the first python3 on PATH."""
    if importlib.util.find_spec("numpy"):
        return
    other = "/usr/bin/python3"
    if sys.executable != other and os.path.exists(other) and "HT_RESTARTED_FOR_NUMPY" not in os.environ:
        os.execve(other, [other, *sys.argv], {**os.environ, "HT_RESTARTED_FOR_NUMPY": "1"})
    print("skipped: numpy is not installed (python3-numpy)")
    sys.exit(77)


use_interpreter_with_numpy()
import numpy as np  # noqa: E402

HTENSOR, LLAMA = "", ""
BOUND = {"float32": 4e-6, "float64": 2e-14}
INT8_BOUND = 0.05
PROMPT = [3, 141, 59, 26, 500, 35, 89, 79, 3, 2, 38]
TOKENS = 8
NAMES = {"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
         "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
         "ffn_down": "mlp.down_proj"}


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def read_safetensors(path):
    """All tensors as F64; this reader knows F32 and BF16."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    tensors = {}
    for name, entry in json.loads(data[8:8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        if entry["dtype"] == "BF16":
            values = (np.frombuffer(data[begin:end], "<u2").astype("<u4") << 16).view("<f4")
        else:
            assert entry["dtype"] == "F32", entry
            values = np.frombuffer(data[begin:end], "<f4")
        tensors[name] = values.astype(np.float64).reshape(entry["shape"])
    return tensors


class Llama:
    """The reference forward pass: all tokens at once, without a cache of keys and values."""

    def __init__(self, path):
        if path.suffix == ".gguf":
            plain = path.with_suffix(".safetensors")
            run(HTENSOR, "convert", path, plain, "--dequantize=F32", "--drop-metadata", "--force", "-q")
            self.tensors = read_safetensors(plain)
            meta = json.loads(run(HTENSOR, "meta", path, "--json"))["metadata"]
            self.layers, self.heads, self.key_heads = (meta[f"llama.{key}"] for key in ("block_count", "attention.head_count", "attention.head_count_kv"))
            # The file stores both as F32.
            self.epsilon, self.base = (float(np.float32(meta[f"llama.{key}"])) for key in ("attention.layer_norm_rms_epsilon", "rope.freq_base"))
            self.factors = self.tensors["rope_freqs.weight"]
            self.names = lambda layer, part: f"blk.{layer}.{part}.weight"
            self.table, self.norm, self.output = (self.tensors[f"{name}.weight"] for name in ("token_embd", "output_norm", "output"))
            self.pairs = lambda size: (np.arange(0, size, 2), np.arange(1, size, 2))
        else:
            self.tensors = read_safetensors(path)
            config = json.loads((path.parent / "config.json").read_text())
            self.layers, self.heads, self.key_heads = (config[f"num_{key}"] for key in ("hidden_layers", "attention_heads", "key_value_heads"))
            self.epsilon, self.base = config["rms_norm_eps"], config["rope_theta"]
            self.factors = self.llama3(config)
            self.names = lambda layer, part: f"model.layers.{layer}.{NAMES[part]}.weight"
            self.table, self.norm, self.output = (self.tensors[f"{name}.weight"] for name in ("model.embed_tokens", "model.norm", "lm_head"))
            self.pairs = lambda size: (np.arange(size // 2), np.arange(size // 2, size))

    def llama3(self, config):
        """The divisors of the frequencies, as in _compute_llama3_parameters of Transformers."""
        scaling, size = config["rope_scaling"], config["head_dim"]
        frequencies = 1 / self.base ** (np.arange(0, size, 2) / size)
        wavelengths = 2 * np.pi / frequencies
        context, low, high = scaling["original_max_position_embeddings"], scaling["low_freq_factor"], scaling["high_freq_factor"]
        smooth = (context / wavelengths - low) / (high - low)
        middle = (1 - smooth) / scaling["factor"] + smooth
        divided = np.where(wavelengths > context / low, 1 / scaling["factor"], np.where(wavelengths < context / high, 1, middle))
        return 1 / divided

    def rms_norm(self, x, weight):
        return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + self.epsilon) * weight

    def rope(self, x):
        """x[tokens, heads, size]"""
        size = x.shape[-1]
        angles = np.arange(x.shape[0])[:, None, None] * self.base ** (-np.arange(0, size, 2) / size) / self.factors
        first, second = self.pairs(size)
        rotated = np.empty_like(x)
        rotated[..., first] = x[..., first] * np.cos(angles) - x[..., second] * np.sin(angles)
        rotated[..., second] = x[..., first] * np.sin(angles) + x[..., second] * np.cos(angles)
        return rotated

    def attention(self, x, weights):
        count = x.shape[0]
        q, k, v = (x @ weights[f"attn_{part}"].T for part in "qkv")
        q = self.rope(q.reshape(count, self.heads, -1))
        k = self.rope(k.reshape(count, self.key_heads, -1))
        group = self.heads // self.key_heads
        k, v = (np.repeat(part.reshape(count, self.key_heads, -1), group, axis=1) for part in (k, v))
        scores = np.einsum("ihd,jhd->hij", q, k) / np.sqrt(q.shape[-1])
        scores = np.where(np.tril(np.ones((count, count), bool)), scores, -np.inf)
        weight = np.exp(scores - scores.max(axis=-1, keepdims=True))
        mixed = np.einsum("hij,jhd->ihd", weight / weight.sum(axis=-1, keepdims=True), v)
        return mixed.reshape(count, -1) @ weights["attn_output"].T

    def logits(self, ids):
        x = self.table[ids]
        for layer in range(self.layers):
            weights = {part: self.tensors[self.names(layer, part)] for part in NAMES}
            x = x + self.attention(self.rms_norm(x, weights["attn_norm"]), weights)
            h = self.rms_norm(x, weights["ffn_norm"])
            gate = h @ weights["ffn_gate"].T
            x = x + (gate / (1 + np.exp(-gate)) * (h @ weights["ffn_up"].T)) @ weights["ffn_down"].T
        return self.rms_norm(x, self.norm) @ self.output.T


class Reference(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name)

    def tearDown(self):
        self.folder.cleanup()

    def synthesize(self, name, dtype):
        path = self.path / name
        config = ["--config"] if path.suffix == ".safetensors" else []
        run(HTENSOR, "synth", path, "--preset", "llama-tiny", "--dtype", dtype, "-q", *config)
        return path

    def generate(self, path, *options):
        """The generated ids, and the logits after each prompt token and each generated id but the last."""
        file = self.path / "logits.npy"
        command = [LLAMA, path, *PROMPT, "--tokens", TOKENS, "--logits", file, *options]
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
        if "[device_unavailable]" in done.stderr:
            self.skipTest(done.stderr)
        self.assertEqual(done.returncode, 0, done.stderr)
        text = done.stdout
        self.assertRegex(text, r"first token: [0-9.]+ s")
        self.assertRegex(text, r"[0-9.]+ tokens/s, [0-9.]+ GB/s of weights")
        return [int(word) for word in text.splitlines()[0].split()], np.load(file)

    def expect_near(self, logits, expected, bound):
        self.assertEqual(logits.shape, expected.shape)
        error = np.abs(logits.astype(np.float64) - expected).max() / np.abs(expected).max()
        self.assertLessEqual(error, bound)
        return error

    def check(self, path):
        reference = Llama(path)
        ids, logits = self.generate(path)
        expected = reference.logits(PROMPT + ids[:-1])
        self.assertTrue(0.1 < expected.std() < 100)
        bound = BOUND[str(logits.dtype)]
        error = self.expect_near(logits, expected, bound)
        # Greedy: each id has the largest logit of the reference.
        self.assertEqual(ids, expected[len(PROMPT) - 1:].argmax(axis=1).tolist())
        same_ids, same_logits = self.generate(path, "--one-by-one")
        self.assertEqual(same_ids, ids)
        self.expect_near(same_logits, expected, bound)
        print(f"{path.name} {logits.dtype}: error {error:.1e} of the largest logit")
        return expected

    def test_logits_of_gguf_f32_are_near_the_reference(self):
        self.check(self.synthesize("m.gguf", "F32"))

    def test_logits_of_gguf_bf16_are_near_the_reference(self):
        self.check(self.synthesize("m.gguf", "BF16"))

    def test_logits_of_gguf_q8_0_are_near_the_reference(self):
        self.check(self.synthesize("m.gguf", "Q8_0"))

    def test_logits_of_gguf_q4_k_m_are_near_the_reference(self):
        path = self.synthesize("m.gguf", "Q4_K_M")
        self.check(path)
        ids, logits = self.generate(path, "--int8")
        error = self.expect_near(logits, Llama(path).logits(PROMPT + ids[:-1]), INT8_BOUND)
        print(f"{path.name} with int8 activations: error {error:.1e} of the largest logit")

    def test_logits_of_safetensors_f32_are_near_the_reference(self):
        self.check(self.synthesize("model.safetensors", "F32"))

    def test_logits_of_safetensors_bf16_are_near_the_reference(self):
        self.check(self.synthesize("model.safetensors", "BF16"))

    def test_logits_of_a_quantized_model_are_near_those_of_f32(self):
        """Logits of a model that the library quantized to Q8_0 are near the logits of the F32 model."""
        path = self.synthesize("m.gguf", "F32")
        quantized = self.path / "q.gguf"
        run(HTENSOR, "convert", path, quantized, "--quantize", "*=Q8_0", "-q")
        expected = self.check(quantized)
        exact = Llama(path).logits(PROMPT)
        self.expect_near(expected[:len(PROMPT)], exact, 0.05)

    def test_missing_config_and_bad_ids_are_errors(self):
        path = self.synthesize("model.safetensors", "F32")
        (self.path / "config.json").unlink()
        done = subprocess.run([LLAMA, path, "1"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("config.json", done.stderr)
        for ids in ([], [""], ["1x"], ["99999999999"]):
            self.assertEqual(subprocess.run([LLAMA, path, *ids], capture_output=True, check=False).returncode, 2, ids)

    def test_one_token_has_no_rate(self):
        path = self.synthesize("m.gguf", "F32")
        done = subprocess.run([LLAMA, path, "1", "--tokens", "1"], capture_output=True, text=True, check=False)
        if "[device_unavailable]" in done.stderr:
            self.skipTest(done.stderr)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("first token: ", done.stdout)
        self.assertNotIn("tokens/s", done.stdout)

    def test_inconsistent_sizes_are_errors(self):
        path = self.synthesize("model.safetensors", "F32")
        config = self.path / "config.json"
        sizes = json.loads(config.read_text())
        hostile = [("num_key_value_heads", 0), ("num_key_value_heads", sizes["num_attention_heads"] + 1),
                   ("num_hidden_layers", 1e300), ("num_hidden_layers", -1), ("hidden_size", 0), ("head_dim", 0),
                   ("num_attention_heads", 2**31)]
        for key, value in hostile:
            with self.subTest(key=key, value=value):
                config.write_text(json.dumps({**sizes, key: value}))
                done = subprocess.run([LLAMA, path, "1"], capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn("hint: ", done.stderr)


if __name__ == "__main__":
    HTENSOR, LLAMA = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
