"""veristate lets a research agent's work be acted on: checked, kept, certified, committed once.

In Python, two lines check what torch computes:

    with veristate.checked(model) as checks:
        y = model(x)

and `veristate.check_product(A, B, Y)` checks a product that is at hand as arrays. One line makes each call of a
function a step that is committed to:

    @veristate.stage
    def answer(question): ...
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from veristate.attest import stage
    from veristate.devices import checked
    from veristate.numerics import check_product

__version__ = "0.1.0.dev0"
__all__ = ["__version__", "check_product", "checked", "stage"]


def __getattr__(name: str) -> Any:
    """What needs numpy, torch or time is imported when it is asked for: the base install lacks the first two."""
    if name == "checked":
        from veristate.devices import checked

        return checked
    if name == "check_product":
        from veristate.numerics import check_product

        return check_product
    if name == "stage":
        from veristate.attest import stage

        return stage
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
