#!/usr/bin/env python3
"""Compares the table of verbs in docs/cli.md with the program: its verbs, their options, their JSON keys.

Usage: contract_test.py HTENSOR CLI_MD
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

HTENSOR, CLI_MD = "", pathlib.Path()
GLOBAL = {"--json", "--jsonl", "--quiet", "--progress", "--help", "--max-header"}
# Options whose values the help lists in place of a name.
LISTED = {"--to"}
# One call per verb, whose JSON has every key of the table. {0} to {3} are the files of make_models.
CALLS = {
    "ls": ["ls", "{0}"],
    "show": ["show", "{0}", "model.norm.weight"],
    "export": ["export", "{0}", "model.norm.weight", "-o", "norm.bin"],
    "seal": ["seal", "{0}"],
    "verify": ["verify", "{2}"],
    "hash": ["hash", "{0}", "--per-tensor"],
    "convert": ["convert", "{0}", "converted.gguf"],
    "diff": ["diff", "{0}", "{1}"],
    "meta": ["meta", "{0}"],
    "load": ["load", "{0}"],
    "residency": ["residency", "{0}"],
    "prefetch": ["prefetch", "{0}"],
    "evict": ["evict", "{0}"],
    "plan": ["plan", "{0}"],
    "doctor": ["doctor", "{3}"],
    "synth": ["synth", "made.ht", "--preset", "matrix"],
    "devices": ["devices"],
    "version": ["version"],
}


def run(*arguments, cwd=None):
    return subprocess.run([HTENSOR, *arguments], capture_output=True, text=True, check=False, cwd=cwd)


def rows():
    """(verbs, options, keys, missing, values) for each line of the table.

    `missing` are options that do not exist yet; `values` has the names of values, {'--align': 'N'}.
    """
    for line in CLI_MD.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) != 4 or not cells[0].startswith("`"):
            continue
        usage = re.findall(r"`([^`]*)`", cells[0])
        options = set(re.findall(r"(?<!\w)--[a-z][a-z-]*", cells[0]))
        values = dict(re.findall(r"(--[a-z][a-z-]*) ([A-Z][A-Z=]*)", cells[0]))
        missing = set(re.findall(r"--[a-z][a-z-]*", cells[3]))
        yield [text.split()[0] for text in usage], options, cells[2].strip("`"), missing, values


def split_keys(text):
    """'a, b[]{c,d}' becomes [('a', None), ('b', 'c,d')]."""
    keys, depth, begin = [], 0, 0
    for at, letter in enumerate(text + ","):
        depth += (letter == "{") - (letter == "}")
        if letter == "," and depth == 0:
            key = re.fullmatch(r"\s*(\w+)(?:\[\])?(?:\{(.*)\})?\s*", text[begin:at])
            if key:
                keys.append((key[1], key[2]))
            begin = at + 1
    return keys


class Contract(unittest.TestCase):
    """Each test walks the whole table."""

    def test_table_has_the_verbs_of_the_program(self):
        listed = set(json.loads(run("--json").stdout)["verbs"])
        self.assertEqual(listed, {verb for verbs, *_ in rows() for verb in verbs})

    def test_table_has_the_options_of_the_program(self):
        for verbs, options, _, missing, _ in rows():
            for verb in verbs:
                text = run(verb, "--help").stdout
                in_help = set(re.findall(r"^  (?:-\w,)?(--[a-z][a-z-]*)", text, re.MULTILINE)) - GLOBAL
                with self.subTest(verb=verb):
                    self.assertEqual(in_help, options)
                    self.assertFalse(in_help & missing, "an existing option is listed as missing")

    def test_help_names_values_as_the_table_does(self):
        for verbs, values in ((verbs, values) for verbs, *_, values in rows() if values):
            for verb in verbs:
                text = run(verb, "--help").stdout
                in_help = dict(re.findall(r"^  (?:-\w,)?(--[a-z][a-z-]*) ([A-Z][A-Z=]*)", text, re.MULTILINE))
                with self.subTest(verb=verb):
                    expected = {option: value for option, value in values.items() if option not in LISTED}
                    self.assertEqual({option: in_help.get(option) for option in expected}, expected)

    def test_json_has_the_keys_of_the_table(self):
        with tempfile.TemporaryDirectory() as folder:
            models = self.make_models(pathlib.Path(folder))
            for verbs, _, keys, *_ in rows():
                for verb in verbs:
                    with self.subTest(verb=verb):
                        done = run(*(part.format(*models) for part in CALLS[verb]), "--json", cwd=folder)
                        self.assertIn(done.returncode, (0, 1), done.stderr)
                        self.check_keys(json.loads(done.stdout), keys)

    def make_models(self, folder):
        """Two models that differ, a sealed one that is damaged, and a file with a problem."""
        for name, seed in (("a", "1"), ("b", "2"), ("damaged", "1")):
            made = run("synth", f"{name}.safetensors", "--preset", "llama-1b", "--size", "1M", "--seed", seed, cwd=folder)
            self.assertEqual(made.returncode, 0, made.stderr)
        self.assertEqual(run("seal", "damaged.safetensors", cwd=folder).returncode, 0)
        damaged = folder / "damaged.safetensors"
        content = bytearray(damaged.read_bytes())
        content[-1] ^= 1
        damaged.write_bytes(content)
        (folder / "empty.safetensors").write_bytes(b"")
        return "a.safetensors", "b.safetensors", "damaged.safetensors", "empty.safetensors"

    def check_keys(self, document, keys):
        for key, inner in split_keys(keys):
            self.assertIn(key, document)
            if inner is None:
                continue
            value = document[key]
            for each in value if isinstance(value, list) else [value]:
                self.check_keys(each, inner)
            self.assertTrue(value, f"'{key}' is empty, so its keys are not checked")


if __name__ == "__main__":
    HTENSOR, CLI_MD = str(pathlib.Path(sys.argv[1]).resolve()), pathlib.Path(sys.argv[2])
    unittest.main(argv=sys.argv[:1])
