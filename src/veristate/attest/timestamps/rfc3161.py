"""RFC 3161 requests and replies by rfc3161-client: the one place of the `timestamps` extra, loaded when first used."""

from types import ModuleType
from typing import Any

from cryptography.x509 import Certificate

from veristate.core import EnvironmentUnusableError


def build_request(message: bytes) -> tuple[bytes, int]:
    """A request for a SHA-256 imprint of the message, with certificates, and the random nonce in it."""
    library = _library()
    builder = library.TimestampRequestBuilder().data(message).hash_algorithm(library.HashAlgorithm.SHA256)
    request = builder.nonce(nonce=True).cert_request(cert_request=True).build()
    return bytes(request.as_bytes()), int(request.nonce)


def read_reply(reply: bytes) -> Any:
    """The reply's parts. Raises: ValueError when it is none."""
    return _library().decode_timestamp_response(reply)


def check_reply(decoded: Any, message: bytes, roots: tuple[Certificate, ...], others: tuple[Certificate, ...]) -> None:
    """Returns when the token is over the message and signed by an authority under a root, all valid at its own time.

    Raises: ValueError with what is wrong.
    """
    library = _library()
    verifier = library.VerifierBuilder(roots=list(roots), intermediates=list(others)).build()
    try:
        verifier.verify_message(decoded, message)
    except library.VerificationError as error:
        raise ValueError(str(error)) from error


def _library() -> ModuleType:
    try:
        import rfc3161_client
    except ImportError as error:
        raise EnvironmentUnusableError(f"timestamps need {error.name}: pip install 'veristate[timestamps]'") from error
    return rfc3161_client
