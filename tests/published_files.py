"""Files that tests write in place of published ones: a GGUF file, a wheel on a package index."""

import hashlib
import zipfile

import gguf
import numpy as np
from gguf.quants import dequantize, quantize

from fpt.backbones.published import Wheel

LAYERS, WIDTH, INNER, HEADS, WORDS = 2, 64, 96, 2, 11
QUANTISED = gguf.GGMLQuantizationType.Q4_1
SHAPES = {  # by the names of llama.cpp, as Linear layers have them
    "attn_q": (WIDTH, WIDTH), "attn_k": (WIDTH, WIDTH), "attn_v": (WIDTH, WIDTH),
    "attn_output": (WIDTH, WIDTH), "ffn_gate": (INNER, WIDTH), "ffn_up": (INNER, WIDTH),
    "ffn_down": (WIDTH, INNER),
}  # fmt: skip


def write_gguf(path, layers=LAYERS):
    """Write a Llama into a GGUF file; its quantised tensors as gguf itself dequantises them. With
    fewer `layers` it is like the first part of a file that was split."""
    draw = np.random.default_rng(0)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(128)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(INNER)
    writer.add_block_count(LAYERS)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(100_000.0)
    writer.add_vocab_size(WORDS)
    dequantised = {}

    def tensor(name, shape):
        values = draw.normal(size=shape).astype(np.float32)
        if len(shape) == 1 or shape[0] == WORDS:
            writer.add_tensor(f"{name}.weight", values)
            return
        packed = quantize(values, QUANTISED)
        dequantised[name] = dequantize(packed, QUANTISED)
        writer.add_tensor(f"{name}.weight", packed, raw_dtype=QUANTISED)

    tensor("token_embd", (WORDS, WIDTH))
    tensor("output_norm", (WIDTH,))
    for layer in range(layers):
        for name, shape in SHAPES.items():
            tensor(f"blk.{layer}.{name}", shape)
        tensor(f"blk.{layer}.attn_norm", (WIDTH,))
        tensor(f"blk.{layer}.ffn_norm", (WIDTH,))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return dequantised


def only_index(folder, patch):
    """A new folder, the only package index that pip knows."""
    folder.mkdir()
    patch.setenv("PIP_NO_INDEX", "1")
    patch.setenv("PIP_FIND_LINKS", str(folder))
    patch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return folder


def write_wheel(index, member, content):
    """Write a wheel that holds one file."""
    path = index / "tiny_weights-1.0-py3-none-any.whl"
    described = "tiny_weights-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(member, content)
        wheel.writestr("tiny_weights/__init__.py", "raise SystemExit('it was imported')\n")
        wheel.writestr(f"{described}/METADATA", "Metadata-Version: 2.1\nName: tiny-weights\n"
                       "Version: 1.0\nRequires-Dist: a-package-that-is-nowhere\n")  # fmt: skip
        wheel.writestr(f"{described}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\n"
                       "Tag: py3-none-any\n")  # fmt: skip
        wheel.writestr(f"{described}/RECORD", "")
    written = path.read_bytes()
    return Wheel("tiny-weights", "1.0", len(written), sha256(written), member, sha256(content))


def sha256(content):
    return hashlib.sha256(content).hexdigest()
