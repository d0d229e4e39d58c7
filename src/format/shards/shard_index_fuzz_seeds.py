#!/usr/bin/env python3
"""Seeds for shard_index_fuzz: texts that are or look like an index. Usage: … FOLDER"""

import json
import pathlib
import sys

SEEDS = {
    "two": json.dumps({"metadata": {"total_size": 12}, "weight_map": {"a": "1.safetensors", "b": "2.safetensors"}}),
    "empty": "{}",
    "no_map": '{"architectures":["LlamaForCausalLM"]}',
    "escapes": '{"weight_map":{"a\\u0000\\"":"d/\\u0061.safetensors"}}',
    "twice": '{"weight_map":{"a":"1","a":"2"}}',
    "maps": '{"weight_map":{},"weight_map":{}}',
    "outside": '{"weight_map":{"a":"../x","b":"/etc/passwd"}}',
    "nested": '{"x":' + "[" * 130 + "]" * 130 + ',"weight_map":{}}',
    "many": json.dumps({"weight_map": {f"t{i}": f"{i % 7}.safetensors" for i in range(50)}}),
}

folder = pathlib.Path(sys.argv[1])
for name, text in SEEDS.items():
    (folder / name).write_text(text, encoding="utf-8")
