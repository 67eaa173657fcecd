"""Certificates for the servers of a board: an authority of one's own, and one certificate a server signed by it.

They are for TLS between servers and to clients; clients need the authority's certificate alone. Whoever has the
authority's key can pose as a server, so it belongs to the person who runs the board and to no server.
Source: RFC 5280, and what nats-server asks of routes, which are clients and servers to each other.
"""

import ipaddress
import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY = "ca"
AUTHORITY_DAYS = 3650
SERVER_DAYS = 825
HERE = ("localhost", "127.0.0.1", "::1")
"""Names that each server's certificate carries beside its own, for clients on its machine."""

_SKEW = timedelta(hours=1)
"""How far the clock of a client may be behind."""


class CertificateError(Exception):
    """Certificates cannot be made; the text says why and what to do."""

    exit_code = 1


class Authority:
    """A certificate that signs others. `folder` holds it as `ca.crt` and its key as `ca.key`."""

    def __init__(self, folder: Path, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self.folder, self._certificate, self._key = folder, certificate, key

    @property
    def path(self) -> Path:
        """The certificate, which clients and servers are given."""
        return self.folder / f"{AUTHORITY}.crt"

    def issue(self, host: str, also: Sequence[str] = HERE, days: int = SERVER_DAYS) -> tuple[Path, Path]:
        """Make a certificate for the server that is reached as `host`, a name or an address, and as `also`. Writes
        `<host>.crt` and `<host>.key`, and returns both paths. Raises CertificateError for what is no host."""
        if not host or set(host) & set("/\\\0") or host in (".", "..", AUTHORITY):
            raise CertificateError(f"{host!r} cannot be the name of a server: give a host name or an address")
        key = ec.generate_private_key(ec.SECP256R1())
        names = [_general_name(one) for one in dict.fromkeys([host, *also])]
        builder = (
            _builder(host, self._certificate.subject, key, min(_days_from_now(days), self._end))
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(digital_signature=True), critical=True)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
                critical=False,
            )
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
        )
        return _write(self.folder, host, builder.sign(self._key, hashes.SHA256()), key)

    @property
    def _end(self) -> datetime:
        return self._certificate.not_valid_after_utc


def open_authority(folder: Path) -> Authority:
    """The authority in `folder`, which is made where there is none. Raises CertificateError for one that cannot be
    used: without its key, unreadable, or past its time."""
    folder.mkdir(parents=True, exist_ok=True)
    certificate, key = folder / f"{AUTHORITY}.crt", folder / f"{AUTHORITY}.key"
    if not certificate.exists() and not key.exists():
        _make_authority(folder)
    try:
        found = x509.load_pem_x509_certificate(certificate.read_bytes())
        secret = serialization.load_pem_private_key(key.read_bytes(), password=None)
    except (OSError, ValueError) as error:
        raise CertificateError(f"the authority in {folder} cannot be used ({error}): use another folder") from error
    if not isinstance(secret, ec.EllipticCurvePrivateKey) or secret.public_key() != found.public_key():
        raise CertificateError(f"{key} is not the key of {certificate}: use another folder")
    if found.not_valid_after_utc <= datetime.now(UTC):
        raise CertificateError(f"{certificate} is past its time, as all that it signed: use another folder")
    return Authority(folder, found, secret)


def _make_authority(folder: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "blackboard authority")])
    builder = (
        _builder("blackboard authority", name, key, _days_from_now(AUTHORITY_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(key_cert_sign=True, crl_sign=True), critical=True)
    )
    _write(folder, AUTHORITY, builder.sign(key, hashes.SHA256()), key)


def _builder(
    subject: str, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject[:64])]))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.now(UTC) - _SKEW)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _days_from_now(days: int) -> datetime:
    return datetime.now(UTC) + timedelta(days=days)


def _usage(**given: bool) -> x509.KeyUsage:
    names = (
        "digital_signature content_commitment key_encipherment data_encipherment key_agreement key_cert_sign crl_sign "
        "encipher_only decipher_only"
    )
    return x509.KeyUsage(**{name: given.get(name, False) for name in names.split()})


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _write(
    folder: Path, name: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey
) -> tuple[Path, Path]:
    """The key first and never readable for others, then the certificate."""
    paths = folder / f"{name}.crt", folder / f"{name}.key"
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    paths[1].unlink(missing_ok=True)
    with os.fdopen(os.open(paths[1], os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(secret)
    paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return paths
