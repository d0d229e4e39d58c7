#!/usr/bin/env python3
"""Trains a small classifier on made-up data and writes it with its test set: train.py OUT.safetensors

A point has 32 numbers. Its class, one of eight, is given by the signs of three products. Each product
multiplies two random projections of the point. No linear classifier can separate these classes. Takes a
few seconds.
"""

import json
import os
import struct
import sys

# Matrices this small are slower on several threads. numpy reads the variable when it is loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import numpy  # noqa: E402

INPUTS, HIDDEN, CLASSES, TRAINING, TEST = 32, 128, 8, 6000, 1000


def make_data(random):
    directions = random.normal(size=(6, INPUTS))
    x = random.normal(size=(4 * (TRAINING + TEST), INPUTS))
    products = (x @ directions[:3].T) * (x @ directions[3:].T)
    # Points near a border could be of either class.
    clear = numpy.abs(products).min(axis=1) > 4
    x, products = x[clear][:TRAINING + TEST], products[clear][:TRAINING + TEST]
    return x, (products > 0) @ numpy.array([1, 2, 4])


def gelu(x):
    inner = numpy.sqrt(2 / numpy.pi) * (x + 0.044715 * x**3)
    t = numpy.tanh(inner)
    slope = 0.5 * (1 + t) + 0.5 * x * (1 - t**2) * numpy.sqrt(2 / numpy.pi) * (1 + 3 * 0.044715 * x**2)
    return 0.5 * x * (1 + t), slope


def train(random, x, labels):
    sizes = {"hidden.weight": (HIDDEN, INPUTS), "hidden.bias": (HIDDEN,),
             "output.weight": (CLASSES, HIDDEN), "output.bias": (CLASSES,)}
    model = {name: random.normal(size=shape) * (0.15 if len(shape) == 2 else 0) for name, shape in sizes.items()}
    means = {name: numpy.zeros(shape) for name, shape in sizes.items()}
    squares = {name: numpy.zeros(shape) for name, shape in sizes.items()}
    step = 0
    for _ in range(60):
        order = random.permutation(len(x))
        for batch in numpy.array_split(order, max(len(x) // 100, 1)):
            step += 1
            before = x[batch] @ model["hidden.weight"].T + model["hidden.bias"]
            hidden, slope = gelu(before)
            logits = hidden @ model["output.weight"].T + model["output.bias"]
            powers = numpy.exp(logits - logits.max(axis=1, keepdims=True))
            error = powers / powers.sum(axis=1, keepdims=True)
            error[numpy.arange(len(batch)), labels[batch]] -= 1
            error /= len(batch)
            back = (error @ model["output.weight"]) * slope
            gradients = {"output.weight": error.T @ hidden, "output.bias": error.sum(axis=0),
                         "hidden.weight": back.T @ x[batch], "hidden.bias": back.sum(axis=0)}
            for name, gradient in gradients.items():
                means[name] = 0.9 * means[name] + 0.1 * gradient
                squares[name] = 0.999 * squares[name] + 0.001 * gradient**2
                mean = means[name] / (1 - 0.9**step)
                square = squares[name] / (1 - 0.999**step)
                model[name] -= 0.004 * mean / (numpy.sqrt(square) + 1e-8)
    return model


def write_safetensors(path, tensors):
    header, offset = {}, 0
    for name, array in tensors.items():
        header[name] = {"dtype": {"float32": "F32", "int64": "I64"}[array.dtype.name], "shape": list(array.shape),
                        "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in tensors.values():
            file.write(array.tobytes())


def main():
    random = numpy.random.default_rng(20261117)
    x, labels = make_data(random)
    model = train(random, x[:TRAINING], labels[:TRAINING])
    tensors = {"test.labels": labels[TRAINING:].astype(numpy.int64),
               "test.inputs": x[TRAINING:].astype(numpy.float32)}
    tensors.update({name: array.astype(numpy.float32) for name, array in model.items()})
    write_safetensors(sys.argv[1], tensors)


if __name__ == "__main__":
    main()
