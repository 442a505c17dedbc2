"""A phone's camera for the studio: one page on an address of the local network, and only what that page needs."""

from __future__ import annotations

import io
import ipaddress
import secrets
import socket
import ssl
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path

import segno
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from markupsafe import Markup

from yoro.errors import InputError
from yoro.http.errors import handle_errors
from yoro.http.guard import PAGE_HEADERS, Access, Guard, Log
from yoro.http.server import add_file, listen
from yoro.http.settings import ServeSettings
from yoro.reports.page import render
from yoro.studio.workspace import Workspace

API = "/phone/api"
NOWHERE = ("192.0.2.1", 9)  # an address for documentation; asking which way leads there sends nothing
DAYS = 7  # that a certificate is valid, should the run last so long
EARLIER = timedelta(hours=1)  # for clocks that are behind
FILES = {  # of the page: where they come from, and their type
    "/": ("yoro.studio", "phone.html", "text/html; charset=utf-8"),
    "/phone.js": ("yoro.studio", "phone.js", "text/javascript"),
    "/phone.css": ("yoro.studio", "phone.css", "text/css"),
    "/style.css": ("yoro.web", "style.css", "text/css"),
    "/icon.svg": ("yoro.studio", "icon.svg", "image/svg+xml"),
    "/camera.js": ("yoro.web", "camera.js", "text/javascript"),
}


@dataclass(frozen=True)
class Phone:
    """Access for a phone: its socket and certificate, and the token in the QR code."""

    sock: socket.socket
    context: ssl.SSLContext
    fingerprint: str
    token: str
    settings: ServeSettings

    @property
    def address(self) -> str:
        host, port = self.sock.getsockname()[:2]
        return f"https://{f'[{host}]' if ':' in host else host}:{port}/"

    @property
    def link(self) -> str:
        """What the code says; browsers do not send what is behind the mark, so that no log has the token."""
        return f"{self.address}#{self.token}"

    def page(self) -> str:
        """The page on this computer that shows the code."""
        code = segno.make(self.link, error="m", micro=False).svg_inline(
            dark="#000", light="#fff", border=3, omitsize=True
        )
        return render("phone.html", code=Markup(code), address=self.address, fingerprint=self.fingerprint)

    def lines(self) -> str:
        drawn = io.StringIO()
        segno.make(self.link, error="m", micro=False).terminal(drawn, compact=True)
        return drawn.getvalue()


def open_phone(settings: ServeSettings, host: str | None) -> Phone:
    """Listen on an address of the local network, with a certificate and a token made for this run."""
    mine = ServeSettings(
        host=host or local_address(), port=settings.port and settings.port + 1, most_megabytes=settings.most_megabytes,
        held_megabytes=settings.held_megabytes, read_seconds=settings.read_seconds, connections=32,
    )  # fmt: skip
    context, fingerprint = certified(mine.host)
    return Phone(listen(mine), context, fingerprint, secrets.token_urlsafe(16), mine)


def local_address() -> str:
    """This machine's address in its network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect(NOWHERE)
            found = str(sock.getsockname()[0])
        except OSError:
            found = "127.0.0.1"
    if ipaddress.ip_address(found).is_loopback:
        raise InputError(
            "This computer is in no network that a phone could be in; connect it, or give --phone-address."
        )
    return found


def phone_app(phone: Phone, work: Workspace, add: Callable[[Request, int], Awaitable[Response]], log: Log) -> Guard:
    """The page, the names of the classes, and the upload of photos to one of them; nothing else is served."""
    app = FastAPI(title="YORO phone", openapi_url=None, docs_url=None, redoc_url=None)
    for path, (package, name, kind) in FILES.items():
        add_file(app, path, (files(package) / "page" / name).read_bytes(), kind)

    @app.get(f"{API}/classes")
    async def classes() -> Response:
        with work.lock:
            named = [{"id": number, "name": name} for number, name in work.state.classes.items()]
        return JSONResponse({"classes": named})

    @app.post(f"{API}/photos")
    async def photos(request: Request, belongs: int) -> Response:
        return await add(request, belongs)

    handle_errors(app)
    access = Access(phone.token, private=API, open=frozenset(FILES), headers=PAGE_HEADERS)
    return Guard(app, phone.settings, access, log)


def certified(address: str) -> tuple[ssl.SSLContext, str]:
    """A TLS context with a new certificate for an IP address, and the certificate's SHA-256 fingerprint."""
    try:
        named = ipaddress.ip_address(address)
    except ValueError:
        raise InputError(f"{address!r} is not an IP address of this machine.") from None
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "YORO studio")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - EARLIER)
        .not_valid_after(now + timedelta(days=DAYS))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(named)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    with tempfile.TemporaryDirectory() as folder:  # readable by this user only, and gone once it is loaded
        file = Path(folder) / "run.pem"
        secret = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        file.write_bytes(secret + certificate.public_bytes(serialization.Encoding.PEM))
        context.load_cert_chain(file)
    return context, certificate.fingerprint(hashes.SHA256()).hex(":").upper()
