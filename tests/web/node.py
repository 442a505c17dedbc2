"""The page's modules run by Node, without a browser."""

from __future__ import annotations

import json
import shutil
import subprocess
from importlib import resources

import pytest

PAGE = resources.files("yoro.web") / "page"


def node(module: str, body: str, given: object) -> object:
    """What a function body returns that sees a module of the page as `page` and what was given as `given`."""
    if shutil.which("node") is None:
        pytest.skip("Node is not installed: apt-get install nodejs")
    program = (
        f"import * as page from {json.dumps((PAGE / module).as_uri())}; import fs from 'node:fs';"
        "const given = JSON.parse(fs.readFileSync(0, 'utf8'));"
        "const bytes = (text) => new Uint8Array(Buffer.from(text, 'base64'));"
        "const text = (data) => Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString('base64');"
        f"console.log(JSON.stringify((() => {{ {body} }})()));"
    )
    words = ["node", "--input-type=module", "--eval", program]
    done = subprocess.run(words, input=json.dumps(given), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
