"""An estimator is a guest in another program: the settings of that program neither change a result
nor are changed, and nothing is written where it runs."""

import os
import random
import shutil
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from saved_models import save_model
from transformers import LlamaModel

import fpt
from fpt import FrozenTransformer

X = np.random.default_rng(0).normal(size=(24, 5, 2))
X[0, 0, 0] = 1e-60  # too small for float32, which NumPy may take for an error
Y = np.arange(24) % 2


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A Llama and a BERT, whose code draws its parameters and its dropout from the global
    generator."""
    folder = tmp_path_factory.mktemp("models")
    for kind in ("llama", "bert"):
        save_model(kind, folder / kind)
    return folder


def estimators(folders):
    few = {"steps": 2, "batch": 8}
    return {
        "built in": FrozenTransformer("pico", init="random", **few),
        "drawn by transformers": FrozenTransformer(str(folders / "llama"), init="random", **few),
        "with dropout inside": FrozenTransformer(str(folders / "bert"), **few),
        "regression": FrozenTransformer(str(folders / "llama"), task="regression", **few),
    }


def numbers(estimator):
    """What it predicts after a fit."""
    fitted = estimator.fit(X, Y)
    predict = getattr(fitted, "predict_proba", fitted.predict)
    return predict(X)


@pytest.fixture(scope="module")
def expected(folders):
    return {name: numbers(estimator) for name, estimator in estimators(folders).items()}


@contextmanager
def changed(setter, value, usual):
    setter(value)
    try:
        yield
    finally:
        setter(usual)


def default_dtype(dtype):
    return changed(torch.set_default_dtype, dtype, torch.float32)


@contextmanager
def other_draws():
    random.seed(7)
    np.random.seed(7)  # noqa: NPY002
    torch.manual_seed(7)
    yield


SETTINGS = {
    "float64": lambda: default_dtype(torch.float64),
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "device": lambda: torch.device("meta"),
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "deterministic": lambda: changed(torch.use_deterministic_algorithms, True, False),
    "numpy raises": lambda: np.errstate(all="raise"),
    "random state": other_draws,
}


def state_of_the_program():
    return {
        "python": random.getstate(),
        "numpy": str(np.random.get_state()),  # noqa: NPY002
        "torch": torch.get_rng_state().tolist(),
        "dtype": torch.get_default_dtype(),
        "device": torch.get_default_device(),
        "gradients": (torch.is_grad_enabled(), torch.is_inference_mode_enabled()),
        "autocast": torch.is_autocast_enabled("cpu"),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "threads": torch.get_num_threads(),
        "errors": np.geterr(),
        "warnings": [*warnings.filters],
        "environment": dict(os.environ),
        "directory": os.getcwd(),
        "initialisations": dict(vars(torch.nn.init)),
    }


# The program around may have switched gradients off, or chosen another type of numbers.
@pytest.mark.parametrize("setting", SETTINGS)
def test_a_setting_of_the_program_neither_counts_nor_changes(setting, folders, expected):
    for name, estimator in estimators(folders).items():
        with SETTINGS[setting]():
            before = state_of_the_program()
            predictions = numbers(estimator)
            after = state_of_the_program()
        assert after == before, name
        assert np.array_equal(predictions, expected[name]), name


def test_a_failure_leaves_the_settings_too(folders, monkeypatch):
    def fail(loop):
        raise MemoryError

    monkeypatch.setattr("fpt.training.loop.Loop.validate", fail)
    estimator = FrozenTransformer(str(folders / "llama"), init="random", steps=2)
    with default_dtype(torch.float64), torch.inference_mode(), torch.device("meta"):
        before = state_of_the_program()
        with pytest.raises(MemoryError):
            estimator.fit(X, Y)
        assert state_of_the_program() == before


# A thread that draws meanwhile would change the parameters, and its own draws would come again.
def test_the_global_generator_does_not_move_while_parameters_are_drawn(folders, monkeypatch):
    draw, states = LlamaModel._init_weights, []

    def watched(model, part):
        draw(model, part)
        states.append(torch.get_rng_state())

    monkeypatch.setattr(LlamaModel, "_init_weights", watched)
    before = torch.get_rng_state()
    estimators(folders)["drawn by transformers"].fit(X, Y)
    assert states
    assert all(torch.equal(state, before) for state in states)


# Settings of torch belong to the process or to a thread, and transformers draws from the global
# generator.
def test_threads_fit_and_predict_as_alone(folders, expected):
    """Side by side, some of them twice, while another thread draws from the global generator."""
    all_of_them = [*estimators(folders).items(), *estimators(folders).items()]
    together = threading.Barrier(len(all_of_them))
    before = state_of_the_program()

    def run(estimator):
        together.wait()
        return numbers(estimator)

    with ThreadPoolExecutor(len(all_of_them)) as pool:
        predictions = list(pool.map(run, (estimator for _, estimator in all_of_them)))
    assert state_of_the_program() == before
    for (name, _), values in zip(all_of_them, predictions, strict=True):
        assert np.array_equal(values, expected[name]), name


ELSEWHERE = """
import sys
import psutil  # of which transformers asks; on Linux it needs what Windows has not
sys.modules["resource"] = sys.modules["fcntl"] = None
from concurrent.futures import ThreadPoolExecutor
import numpy as np
X, y = np.random.default_rng(0).normal(size=(20, 4, 1)), np.arange(20) % 2
def predicted(backbone):
    from fpt import FrozenTransformer
    return FrozenTransformer(backbone, steps=1).fit(X, y).predict(X).shape
with ThreadPoolExecutor(4) as pool:
    print({*pool.map(predicted, sys.argv[1:])})
"""


@pytest.fixture
def elsewhere(tmp_path):
    """What a program prints that runs in the folder `here`, with this package installed in
    `site`."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(fpt.__file__).parent, tmp_path / "site/fpt", ignore=ignored)
    (tmp_path / "here").mkdir()
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "site"), "PYTHONDONTWRITEBYTECODE": "1"}
    env.pop("FPT_ROOT")

    def run(code, *arguments):
        command = [sys.executable, "-c", code, *arguments]
        done = subprocess.run(command, cwd=tmp_path / "here", env=env, capture_output=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.decode().strip()

    return run


def test_an_estimator_writes_nothing_and_needs_no_unix(elsewhere, folders, tmp_path):
    """Though several threads need it at once, before anything is imported."""
    before = sorted(tmp_path.rglob("*"))
    llama = str(folders / "llama")
    assert elsewhere(ELSEWHERE, "nano", llama, "nano", llama) == "{(20,)}"
    assert sorted(tmp_path.rglob("*")) == before
