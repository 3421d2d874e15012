"""A hub on this machine, as the client of the Hugging Face hub speaks to it, and an empty cache."""

import re
from collections import Counter
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

PATH = re.compile("/(?P<repository>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<file>.+)")


class FakeHub:
    """`branches` maps (repository, branch) to a commit, `files` (repository, commit) to contents by
    name. `asked` counts requests by file and `moves` has main move on after each of them."""

    def __init__(self):
        self.branches = {}
        self.files = {}
        self.asked = Counter()
        self.moves = None

    def push(self, files, commit, repository="o/r", branch="main"):
        """A new commit of a branch."""
        self.branches[repository, branch] = commit
        self.files[repository, commit] = files

    def answer(self, repository, revision, file):
        """Status, headers and content for one file."""
        repositories = {name for name, _ in self.files}
        if repository not in repositories:
            return 404, {"X-Error-Code": "RepoNotFound"}, b""
        self.asked[file] += 1
        commit = self.branches.get((repository, revision), revision)
        if self.moves:
            self.branches[repository, revision] = next(self.moves)
        if (repository, commit) not in self.files:
            return 404, {"X-Error-Code": "RevisionNotFound"}, b""
        headers = {"X-Repo-Commit": commit}
        content = self.files[repository, commit].get(file)
        if content is None:
            return 404, headers | {"X-Error-Code": "EntryNotFound"}, b""
        return 200, headers | {"ETag": f'"{sha256(content).hexdigest()}"'}, content


@contextmanager
def serving(hub):
    """The address of a server of `hub`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            match = PATH.fullmatch(self.path)
            status, headers, content = hub.answer(*match.groups()) if match else (404, {}, b"")
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

        do_HEAD = do_GET

        def log_message(self, *arguments):
            pass

    with listening(Handler) as address:
        yield address


@contextmanager
def listening(handler):
    """The address of a server of this machine."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
