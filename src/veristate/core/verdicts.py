"""The three answers of an arithmetic check."""

from enum import StrEnum


class Verdict(StrEnum):
    """PASS: residual within its bound. FLAG: a fault is proven under the contract. INAPPLICABLE: the bound can't judge.

    There is no order between them and no truth value: a caller names the one it asks for.
    """

    PASS = "PASS"  # noqa: S105 - no password
    FLAG = "FLAG"
    INAPPLICABLE = "INAPPLICABLE"
