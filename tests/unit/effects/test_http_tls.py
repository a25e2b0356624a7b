"""TLS: the name is asked for and verified, although a checked address is connected to."""

from __future__ import annotations

import datetime as dt
import ssl

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from cellule.effects.http import HttpRequest
from cellule.effects.outcomes import Failed, Retry

PRIVATE = {"private": True, "hosts": None, "methods": None}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """A server's TLS context for shop.test, and a client's that trusts it."""
    folder = tmp_path_factory.mktemp("tls")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "shop.test")])
    start = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    certificate = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(1).not_valid_before(start).not_valid_after(start + dt.timedelta(days=36_500))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("shop.test")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    (folder / "cert").write_bytes(pem)
    (folder / "key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert", folder / "key")
    return context, ssl.create_default_context(cadata=pem.decode())


async def test_tls_asks_for_the_name_and_verifies_it_although_an_address_is_connected_to(
    serve, http, make_attempt, certificates, names
):
    offered, trusted = certificates
    asked = []
    offered.sni_callback = lambda _socket, name, _context: asked.append(name)
    server = await serve(ssl=offered)
    server.answer("/", 200, b"secure")
    resolver = names(**{"shop.test": ["127.0.0.1"], "other.test": ["127.0.0.1"]})
    adapter = http(verify=trusted, resolver=resolver)
    got = await adapter.perform(
        HttpRequest(url=f"https://shop.test:{server.port}/"), make_attempt(grant=PRIVATE)
    )
    assert (got.body, asked) == (b"secure", ["shop.test"])
    with pytest.raises(Retry, match="on its way"):
        await adapter.perform(
            HttpRequest(url=f"https://other.test:{server.port}/"), make_attempt(grant=PRIVATE)
        )
    with pytest.raises(Retry, match="CERTIFICATE_VERIFY_FAILED"):
        await http(resolver=resolver).perform(
            HttpRequest(url=f"https://shop.test:{server.port}/"), make_attempt(grant=PRIVATE)
        )
    assert len(server.requests) == 1


async def test_a_redirect_from_https_to_http_is_not_followed(serve, http, make_attempt, certificates, names):
    offered, trusted = certificates
    offered.sni_callback = None
    server, plain = await serve(ssl=offered), await serve()
    server.redirect("/", plain.url())
    with pytest.raises(Failed, match="from https to http"):
        await http(verify=trusted, resolver=names(**{"shop.test": ["127.0.0.1"]})).perform(
            HttpRequest(url=f"https://shop.test:{server.port}/", follow_redirects=1),
            make_attempt(grant=PRIVATE),
        )
    assert plain.connections == 0
