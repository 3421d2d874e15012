"""The registered claims of the profile `lab`, all together."""

from .comparison import Section
from .registration import registration

SECTION = Section(claims=tuple(registration()["primary"]))
