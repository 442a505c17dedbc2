"""A certificate for one run: a key pair made here, for one address, signed by itself."""

from __future__ import annotations

import ipaddress
import ssl
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from yoro.errors import InputError

DAYS = 7  # that it is valid, should the run last so long
EARLIER = timedelta(hours=1)  # for clocks that are behind


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
