from __future__ import annotations

import subprocess
import sys

import pytest

from services import running


@pytest.mark.long
@pytest.mark.parametrize("options", [[], ["--feedback"]])
def test_whatever_the_description_allows_is_answered_as_it_says(model, tmp_path, options):
    with running(model, *options, log=tmp_path / "log") as service:
        address = f"http://127.0.0.1:{service.port}/openapi.json"
        words = ["run", address, "--max-examples", "60", "--seed", "1", "--phases", "examples,coverage,fuzzing"]
        words += [
            "--checks",
            "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance",
        ]
        code = "from schemathesis.cli import schemathesis; schemathesis()"
        done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, done.stdout[-5000:]
        assert "Traceback" not in service.log.read_text()
        assert service.client.get("/healthz").status_code == 200
