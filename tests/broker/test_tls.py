"""TLS accepts valid files only, and finds the user that a certificate names."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from tamis.broker.config import TlsConfig
from tamis.broker.tls import server_context, user_of
from tamis.errors import ConfigError


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> TlsConfig:
    folder = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    made = authority.issue_cert("localhost")
    made.private_key_pem.write_to_path(str(folder / "key.pem"))
    made.cert_chain_pems[0].write_to_path(str(folder / "cert.pem"))
    return TlsConfig(folder / "cert.pem", folder / "key.pem", folder / "ca.pem", "required", "common_name")


def test_old_versions_are_not_spoken(files: TlsConfig) -> None:
    context = server_context(files)
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert context.verify_mode is ssl.CERT_REQUIRED


def test_a_file_that_will_not_do_is_named(files: TlsConfig, tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere.pem"
    with pytest.raises(ConfigError, match=r"\[tls\] cert .*nowhere.pem with key .*: No such file"):
        server_context(TlsConfig(nowhere, files.key))
    with pytest.raises(ConfigError, match=r"\[tls\] cert .*: expected a certificate and its private key, each in PEM"):
        server_context(TlsConfig(files.key, files.cert))
    with pytest.raises(ConfigError, match=r"\[tls\] ca .*nowhere.pem: No such file"):
        server_context(TlsConfig(files.cert, files.key, nowhere))
    other = tmp_path / "other.pem"
    trustme.CA().issue_cert("localhost").private_key_pem.write_to_path(str(other))
    with pytest.raises(ConfigError, match=r"other.pem: the key belongs to another certificate$"):
        server_context(TlsConfig(files.cert, other))
    with pytest.raises(ConfigError, match=r"\[tls\] ca .*: expected certificates in PEM format$"):
        server_context(TlsConfig(files.cert, files.key, files.key))


def test_a_key_with_a_password_is_refused_and_nobody_is_asked_for_it(files: TlsConfig, tmp_path: Path) -> None:
    key = serialization.load_pem_private_key(files.key.read_bytes(), None)
    locked = tmp_path / "locked.pem"
    locked.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    with pytest.raises(ConfigError, match=r"\[tls\] key .*locked.pem: expected a key without a password"):
        server_context(TlsConfig(files.cert, locked))


CERTIFICATE = {
    "subject": ((("organizationName", "Example"),), (("commonName", "ann"),)),
    "subjectAltName": (("email", "ann@example.org"), ("DNS", "device-1"), ("DNS", "device-2")),
}


def test_a_certificate_names_a_user_by_common_name_or_alternative_name(files: TlsConfig) -> None:
    by_alternative = TlsConfig(files.cert, files.key, login_from="subject_alt_name")
    assert user_of(CERTIFICATE, files) == "ann"
    assert user_of(CERTIFICATE, by_alternative) == "device-1"
    assert user_of({"subject": ()}, files) is None
    assert user_of({"subject": ()}, by_alternative) is None
    assert user_of(None, files) is None


def test_a_certificate_names_nobody_where_certificates_do_not_log_in(files: TlsConfig) -> None:
    assert user_of(CERTIFICATE, TlsConfig(files.cert, files.key, files.ca, "required")) is None
