"""A stand-in for the Hugging Face Hub: one repository in memory, on a free port of this machine.

It answers the requests of `HfApi.create_repo`, `HfApi.upload_folder` and `snapshot_download`, and
raises an AssertionError for all others.
"""

import base64
import hashlib
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

REPOSITORY = "me/papers"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Repository(BaseHTTPRequestHandler):
    """Answers requests about the files of the server."""

    def do_POST(self):
        content = self.rfile.read(int(self.headers["Content-Length"]))
        _, action = self.path.split("/api/")
        if action == "repos/create":
            self.reply({"url": f"{self.server.url}/{REPOSITORY}"})
        elif action == "validate-yaml":
            self.reply({"errors": [], "warnings": []})
        elif "/preupload/" in action:
            files = json.loads(content)["files"]
            modes = [{**file, "uploadMode": "regular", "shouldIgnore": False} for file in files]
            self.reply({"files": modes})
        else:
            assert "/commit/" in action, action
            self.commit(map(json.loads, content.splitlines()))
            url = f"{self.server.url}/{REPOSITORY}/commit/{COMMIT}"
            self.reply({"success": True, "commitOid": COMMIT, "commitUrl": url})

    def commit(self, lines):
        for line in lines:
            if line["key"] == "file":
                value = line["value"]
                self.server.files[value["path"]] = base64.b64decode(value["content"])

    def do_GET(self):
        if "/resolve/" in self.path:
            content = self.server.files[self.path.rpartition("/")[2]]
            self.reply(content if self.command == "GET" else b"", len(content), content)
        elif "/tree/" in self.path:
            self.reply([self.described(name) for name in self.server.files])
        else:
            assert self.path.startswith("/api/models/"), self.path
            names = [{"rfilename": name} for name in self.server.files]
            self.reply({"id": REPOSITORY, "sha": COMMIT, "siblings": names})

    def described(self, name):
        content = self.server.files[name]
        digest = hashlib.sha1(content).hexdigest()
        return {"type": "file", "path": name, "size": len(content), "oid": digest}

    def do_HEAD(self):
        self.do_GET()

    def reply(self, body, length=None, content=b""):
        sent = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(sent) if length is None else length))
        self.send_header("ETag", f'"{hashlib.sha1(content).hexdigest()}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.end_headers()
        self.wfile.write(sent)

    def log_message(self, format, *args):
        """Print nothing."""


@contextmanager
def hub():
    """Yield a server with `url` and `files`, the content of each file of its repository."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Repository)
    server.url, server.files = f"http://127.0.0.1:{server.server_port}", {}
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
