"""The bodies that a profile freezes: found, or pretrained where the profile allows it."""

from .. import device as devices
from ..config import Profile
from ..errors import FptError
from ..files import write_json
from ..paths import DATA
from ..weights import file_digest, find, local_folder
from .language import Pretraining, pretrain

TOKENS = {"nano": 21_000_000}  # of the bodies that ship with the package


def plan_of(weights: str) -> Pretraining:
    """The plan behind a local identity SIZE-CORPUS-SEED, such as nano-english-0."""
    size, _, rest = weights.partition("-")
    corpus, _, seed = rest.rpartition("-")
    if size not in TOKENS or not corpus or not seed.isdigit():
        raise FptError(
            f"The weights {weights!r} are not SIZE-CORPUS-SEED with SIZE of {', '.join(TOKENS)}; "
            "pretrain them by hand (fpt pretrain CORPUS) or name others in params.yaml."
        )
    return Pretraining(corpus, size, TOKENS[size], int(seed))


def provide(profile: Profile) -> str:
    """Make sure of the profile's weights, and list them in data/backbones/manifest.json by digest.

    Missing weights stop training, not rendering: where they cannot be made here, the list says
    null. Returns a sentence.
    """
    name = profile.weights
    local = not name.startswith("hub:")
    trains_here = devices.choose().type in profile.train_on
    try:
        digest, said = file_digest(find(profile.body, name)), f"{name}: present"
    except FptError as error:
        if not trains_here:
            digest, said = None, f"{name}: not here, and nothing is trained here. {error}"
        elif not local:
            raise
        else:
            plan = plan_of(name)
            pretrain(plan, local_folder() / plan.name)
            digest, said = file_digest(find(profile.body, name)), f"{name}: pretrained"
    write_json(DATA / "backbones" / "manifest.json", {name: digest})
    return said
