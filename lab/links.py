"""Write the links that need the repository's address: `python -m lab.links`.

The address is one value, `Repository` in pyproject.toml. After a change of it, this renews the
README's buttons and the cell of examples/start.ipynb that installs the project, with the torch of
requirements.lock.
"""

import json
import re
import tomllib
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
START = ROOT / "examples" / "start.ipynb"


def address() -> str:
    """The address that `git clone` takes."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    repository: str = project["urls"]["Repository"]
    return repository


def readme() -> str:
    """The README with its buttons made anew. Colab and Codespaces open repositories on GitHub
    alone, so at any other address the line names the notebook."""
    place = urlsplit(address())
    name = place.path.strip("/")
    colab = f"https://colab.research.google.com/github/{name}/blob/main/examples/start.ipynb"
    links = f"[Open in Colab]({colab}) · [Open in Codespaces](https://codespaces.new/{name})"
    if place.netloc != "github.com":
        links = "In Colab or Codespaces: [examples/start.ipynb](examples/start.ipynb)."
    pattern = r"(?<=<!-- links: made by python -m lab.links -->\n).*?(?=\n<!-- end of links -->)"
    return re.sub(pattern, links, README.read_text(), count=1, flags=re.DOTALL)


def start() -> str:
    """examples/start.ipynb with this address and the locked torch in its first cell of code."""
    torch = re.search(r"^torch==[\w.]+", (ROOT / "requirements.lock").read_text(), re.M)
    assert torch is not None
    notebook = json.loads(START.read_text())
    cell = next(cell for cell in notebook["cells"] if cell["cell_type"] == "code")
    source = re.sub(r"git\+\S+", f"git+{address()}", "".join(cell["source"]))
    source = re.sub(r"torch==[\w.]+", torch[0], source)
    cell["source"] = source.splitlines(keepends=True)
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    README.write_text(readme())
    START.write_text(start())
