"""An authority of the tests: OpenSSL signs tokens whose every field is chosen here."""

import hashlib
import subprocess
from datetime import UTC, datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from veristate.attest.timestamps import Authority

MESSAGE = b"log.example/runs\n7\nroot\n"
SIGNED = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
SHA256 = bytes.fromhex("300d06096086480165030402010500")


def der(tag, *parts):
    """One DER value."""
    content = b"".join(parts)
    size = len(content)
    if size < 128:
        return bytes([tag, size]) + content
    length = size.to_bytes((size.bit_length() + 7) // 8)
    return bytes([tag, 0x80 | len(length)]) + length + content


def integer(value):
    """A DER integer."""
    return der(2, value.to_bytes(value.bit_length() // 8 + 1))


class TestAuthority:
    """A root and a signer under it, valid in 2026 up to May by default; replies about any message at any time."""

    __test__ = False

    def __init__(self, folder, *, purpose=ExtendedKeyUsageOID.TIME_STAMPING, until=datetime(2026, 5, 1, tzinfo=UTC)):
        self._folder = folder
        root_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
        root = certificate("root", root_key, "root", root_key, until=datetime(2036, 1, 1, tzinfo=UTC), ca=True)
        signer = certificate("signer", key, "root", root_key, until=until, purpose=purpose)
        self.pem = root.public_bytes(serialization.Encoding.PEM)
        self.authority = Authority.from_pem(self.pem)
        plain = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        (folder / "key.pem").write_bytes(key.private_bytes(serialization.Encoding.PEM, *plain))
        (folder / "signer.pem").write_bytes(signer.public_bytes(serialization.Encoding.PEM))

    def reply(self, message=MESSAGE, *, time=SIGNED, nonce=None, status=0):
        """A whole reply: RFC 3161, section 2.4.2."""
        imprint = der(0x30, SHA256, der(4, hashlib.sha256(message).digest()))
        moment = der(0x18, time.astimezone(UTC).strftime("%Y%m%d%H%M%SZ").encode())
        parts = [integer(1), bytes.fromhex("06032a0304"), imprint, integer(77), moment]
        info = der(0x30, *parts, *([] if nonce is None else [integer(nonce)]))
        (self._folder / "info.der").write_bytes(info)
        command = "openssl cms -sign -binary -nodetach -nosmimecap -cades -md sha256 -econtent_type id-smime-ct-TSTInfo"
        command += " -in info.der -signer signer.pem -inkey key.pem -outform DER"
        done = subprocess.run(command.split(), cwd=self._folder, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
        return der(0x30, der(0x30, integer(status)), done.stdout)


def certificate(name, key, issuer, issuer_key, *, until, ca=False, purpose=None):
    """A certificate that is valid from January 2026."""
    names = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)]) for text in (name, issuer)]
    builder = x509.CertificateBuilder().subject_name(names[0]).issuer_name(names[1]).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number()).not_valid_after(until)
    builder = builder.not_valid_before(datetime(2026, 1, 1, tzinfo=UTC))
    builder = builder.add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    known = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    builder = builder.add_extension(known, critical=False)
    if ca:
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        builder = builder.add_extension(usage, critical=True)
    if purpose is not None:
        builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=True)
    return builder.sign(issuer_key, hashes.SHA256())


def nonce_in(query):
    """The nonce of a request, as OpenSSL reads it."""
    command = ["openssl", "ts", "-query", "-in", "/dev/stdin", "-text"]
    said = subprocess.run(command, input=query, capture_output=True, check=True).stdout.decode()
    return int(said.split("Nonce: ")[1].split()[0], 16)
