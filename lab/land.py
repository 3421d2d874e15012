"""Take over records of an experiment from another checkout: `python -m lab.land NAME FOLDER`.

Only runs that its index names are taken, and each is read with its digest compared. Then all
records are packed into records.jsonl.xz.
"""

import json
import math
import sys
from pathlib import Path

from fpt.project import project
from fpt.reading.replicate import seconds_of
from fpt.records import INDEX, Store


def land(experiment: str, folder: Path) -> str:
    """Copy the records in `folder` that the experiment's index names and that are not there yet,
    and pack them; says how many there are, and the core-hours that they took."""
    own = Store(project().records(experiment))
    known = {row["key"] for row in json.loads((own.folder / INDEX).read_text())}
    other = Store(folder)
    taken = 0
    for key in sorted(other.keys() & known - own.keys()):
        record = other.read(key)
        if record is not None:
            own.write(record, other.parameters(record))
            taken += 1
    own.pack()
    records = own.read_all(own.keys()).values()
    hours = math.fsum(seconds_of(record) for record in records) / 3600
    return f"{taken} records taken over, {len(records)} in all, {hours:.1f} core-hours."


if __name__ == "__main__":
    print(land(sys.argv[1], Path(sys.argv[2])))
