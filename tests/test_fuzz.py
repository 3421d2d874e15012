"""Files of any content: what reads them gives something valid or says what is wrong, no more."""

from contextlib import suppress
from copy import deepcopy

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from refusals import one_sentence
from test_config import PARAMETERS
from test_records import made

from fpt.config import expand, load
from fpt.errors import FptError
from fpt.project import schema
from fpt.records import Store, parse, to_content, to_file


def fuzz(examples):
    return settings(
        max_examples=examples,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


KNOWN = [
    *PARAMETERS["smoke"], *schema()["definitions"]["block"]["properties"], "eval_items",
    "test_items", "threshold", "includes", "tier", "smoke", "own", "language", "random",
    "probe", "full", "N(0, 0.02)", "nano GPT-2", "pico GPT-2", "nano LSTM", "bit-xor", "digits",
    "transfer", "options", "name", "n", "train", "shown", "precision", "../../x", "",
]  # fmt: skip
TEXT = st.sampled_from(KNOWN) | st.text(max_size=8)
NUMBERS = st.integers(-(2**70), 2**70) | st.integers(-2, 3) | st.floats()
SCALARS = st.none() | st.booleans() | NUMBERS | TEXT
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


def places(content, above=()):
    """Every place in nested lists and tables, as the names that lead there."""
    inside = (
        content.items() if type(content) is dict else enumerate(content)
        if type(content) is list else ()
    )  # fmt: skip
    return [above, *(place for name, part in inside for place in places(part, (*above, name)))]


@st.composite
def changed(draw, original):
    """`original` with some of its parts replaced, left out or added."""
    content = deepcopy(original)
    for _ in range(draw(st.integers(1, 3))):
        if type(content) not in (dict, list) or not content:
            return content
        *above, last = draw(st.sampled_from(places(content)[1:]))
        parent = content
        for name in above:
            parent = parent[name]
        how = draw(st.sampled_from(["replace", "leave out", "add"]))
        if how == "replace":
            parent[last] = draw(VALUES)
        elif how == "leave out":
            del parent[last]
        elif type(parent) is list:
            parent.append(draw(st.sampled_from(parent) | VALUES))
        else:
            parent[draw(TEXT)] = draw(VALUES)
    return content


@st.composite
def cut(draw, original):
    """`original` with some of its bytes left out, replaced, or repeated."""
    start, end = sorted(draw(st.tuples(*[st.integers(0, len(original))] * 2)))
    inside = draw(st.binary(max_size=4) | st.just(original[start:end] * 2))
    return original[:start] + inside + original[end:]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz")


@fuzz(300)
@given(content=changed(PARAMETERS))
def test_any_table_of_parameters(content, folder):
    path = folder / "table.yaml"
    path.write_text(yaml.safe_dump(content, allow_unicode=True), errors="surrogatepass")
    try:
        tier = load("smoke", path)
        runs = [run for section in tier.sections for run in expand(tier, section)]
    except FptError as error:
        one_sentence(str(error))
        return
    assert all(len(run.spec.key) == 16 for run in runs)


# A store may meet any file, and must believe no wrong one.
@pytest.mark.filterwarnings("ignore:.* is damaged")
@fuzz(200)
@given(content=cut(to_file(to_content(made()))) | st.binary(max_size=40))
def test_any_bytes_for_a_record(content, folder):
    record = None
    with suppress(ValueError):
        record = parse(content, made().key)
        assert record == made()
    store = Store(folder / "store")
    store.folder.mkdir(exist_ok=True)
    store.path(made().key).write_bytes(content)
    assert store.read(made().key) == record
    assert store.keys() == ({made().key} if record else set())
