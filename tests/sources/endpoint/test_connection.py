from __future__ import annotations

import shutil
import subprocess

import numpy as np
import pytest

from hostile_endpoint import describe, hostile
from yoro.errors import SourceError
from yoro.sources import open_source

IMAGES = np.zeros((2, 32, 32, 3), np.uint8)


@pytest.fixture
def certificate(tmp_path):
    """A certificate of this machine's own, with its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed: no certificate can be made")
    words = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    words += ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    parts = [tmp_path / "key.pem", tmp_path / "cert.pem"]
    subprocess.run(["openssl", *words, "-keyout", parts[0], "-out", parts[1]], check=True, capture_output=True)
    (tmp_path / "both.pem").write_text("".join(part.read_text() for part in parts))
    return tmp_path / "both.pem"


def test_a_server_is_trusted_by_its_certificate_alone(tmp_path, certificate):
    with hostile(tmp_path, certificate=certificate) as endpoint:
        url = endpoint.url.replace("http:", "https:")
        with pytest.raises(SourceError, match="certificate verify failed"):
            open_source(describe(tmp_path, url, retries=0))
        assert endpoint.lines == 0
        assert open_source(describe(tmp_path, url, certificates="cert.pem")).respond(IMAGES).shape == (2, 64)
    with pytest.raises(SourceError, match="No certificates can be read"):
        open_source(describe(tmp_path, url, certificates="absent.pem"))


def test_a_proxy_is_used_if_it_is_named_and_not_if_the_environment_names_it(tmp_path, monkeypatch):
    with hostile(tmp_path) as proxy, hostile(tmp_path) as endpoint:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        open_source(describe(tmp_path, endpoint.url)).respond(IMAGES)
        assert (proxy.lines > 0, endpoint.lines > 0) == (False, True)
        open_source(describe(tmp_path, "http://nowhere.invalid/embed", proxy=proxy.url)).respond(IMAGES)
        assert proxy.lines > 0


def test_a_password_file_of_the_user_is_not_read(tmp_path, monkeypatch):
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password sesame\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with hostile(tmp_path) as endpoint:
        open_source(describe(tmp_path, endpoint.url)).respond(IMAGES)
        assert {line["sent"] for line in endpoint.noted("asked")} == {None}
