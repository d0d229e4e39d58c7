#!/usr/bin/env python3
"""Writes safetensors with the names and shapes of openai/whisper-tiny: make_whisper.py OUT.safetensors.

The first four numbers are different in each tensor; all others are zeros, stored as holes of a sparse file.
proj_out is tied to model.decoder.embed_tokens, so it is not stored, as in the original.
"""

import json
import struct
import sys

WIDTH, INNER, LAYERS, MELS, VOCABULARY = 384, 1536, 4, 80, 51865


def whisper_tiny():
    """Maps names to shapes, in the order of the modules."""
    def linear(name, rows, columns, bias=True):
        return {f"{name}.weight": [rows, columns], **({f"{name}.bias": [rows]} if bias else {})}

    def norm(name):
        return {f"{name}.weight": [WIDTH], f"{name}.bias": [WIDTH]}

    def attention(name):
        # Keys have no bias.
        return {**linear(f"{name}.k_proj", WIDTH, WIDTH, False), **linear(f"{name}.v_proj", WIDTH, WIDTH),
                **linear(f"{name}.q_proj", WIDTH, WIDTH), **linear(f"{name}.out_proj", WIDTH, WIDTH)}

    def layer(name, has_cross_attention):
        shapes = {**attention(f"{name}.self_attn"), **norm(f"{name}.self_attn_layer_norm")}
        if has_cross_attention:
            shapes |= {**attention(f"{name}.encoder_attn"), **norm(f"{name}.encoder_attn_layer_norm")}
        return {**shapes, **linear(f"{name}.fc1", INNER, WIDTH), **linear(f"{name}.fc2", WIDTH, INNER), **norm(f"{name}.final_layer_norm")}

    shapes = {"model.encoder.conv1.weight": [WIDTH, MELS, 3], "model.encoder.conv1.bias": [WIDTH],
              "model.encoder.conv2.weight": [WIDTH, WIDTH, 3], "model.encoder.conv2.bias": [WIDTH],
              "model.encoder.embed_positions.weight": [1500, WIDTH]}
    for i in range(LAYERS):
        shapes |= layer(f"model.encoder.layers.{i}", False)
    shapes |= norm("model.encoder.layer_norm")
    shapes |= {"model.decoder.embed_tokens.weight": [VOCABULARY, WIDTH], "model.decoder.embed_positions.weight": [448, WIDTH]}
    for i in range(LAYERS):
        shapes |= layer(f"model.decoder.layers.{i}", True)
    return shapes | norm("model.decoder.layer_norm")


def first_values(index):
    return struct.pack("<4f", index, index + 0.25, index + 0.5, index + 0.75)


def write(path, shapes):
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in shapes.items():
        size = 4
        for dim in shape:
            size *= dim
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        data = file.tell()
        for index, name in enumerate(shapes):
            file.seek(data + header[name]["data_offsets"][0])
            file.write(first_values(index))
        file.truncate(data + end)


if __name__ == "__main__":
    write(sys.argv[1], whisper_tiny())
