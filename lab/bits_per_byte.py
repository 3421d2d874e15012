"""Bits per byte that a published language model reads English at, as its weights are kept here.

`python -m lab.bits_per_byte MODEL.gguf [NAME[@L]]` prints one number: the mean code length of the
first 24,000 bytes of english-valid.txt in the corpora folder, books of Project Gutenberg, in
windows of 1,024 tokens, each read like the beginning of a document. The tokeniser is that of the
GGUF file from which the weights of NAME, by default smollm2-135m-instruct-q4_1, were made. Of
NAME@L, the first L layers go to the last norm and the head without any training, so that the number
says what a truncated model has kept of the language model.
"""

import json
import math
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from fpt.backbones import backbone
from fpt.backbones.names import split_layers
from fpt.backbones.skeleton import class_of
from fpt.backbones.weights import find
from fpt.files import FptError
from fpt.tasks.sources import END, ENGLISH_HELD_OUT, corpus_file, read_lines

BYTES = 24_000
WINDOW = 1024  # tokens


def sample() -> str:
    """The first `BYTES` of the held-out English, cut between two characters."""
    text = ""
    for line in read_lines(corpus_file(ENGLISH_HELD_OUT)):
        text += line
        if len(text.encode()) >= BYTES:
            break
    return text.encode()[:BYTES].decode(errors="ignore")


def language_model(name: str) -> Any:
    """transformers' causal language model of the backbone `name`, whose head is the table of
    tokens."""
    from transformers import AutoModelForCausalLM

    config, _ = class_of(json.loads(backbone(name).config))
    config.tie_word_embeddings = True
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    stored = {f"model.{key}": value.float() for key, value in load_file(find_of(name)).items()}
    missing, _ = model.load_state_dict(stored, strict=False)
    assert set(missing) <= {"lm_head.weight"}, missing
    model.tie_weights()
    return model


def find_of(name: str) -> Path:
    """The weights of the whole model."""
    return find(split_layers(name)[0])


@torch.no_grad()
def bits_per_byte(name: str, gguf: Path) -> float:
    """The code length of the sample under the model, bits per byte."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    text = sample()
    ids = torch.tensor(tokenizer(text, add_special_tokens=False)["input_ids"])
    model, nats = language_model(name), 0.0
    start = torch.tensor([tokenizer.convert_tokens_to_ids(END)])  # of a document
    for window in ids.split(WINDOW - 1):
        whole = torch.cat([start, window])[None]
        logits = model(input_ids=whole).logits[0, :-1]
        nats += torch.nn.functional.cross_entropy(logits, window, reduction="sum").item()
    return nats / math.log(2) / len(text.encode())


if __name__ == "__main__":
    try:
        named = sys.argv[2] if len(sys.argv) > 2 else "smollm2-135m-instruct-q4_1"
        print(f"{bits_per_byte(named, Path(sys.argv[1])):.3f}")
    except FptError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
