"""What the guard needs of a layer's weights: prepared once for each version of them, on their device."""

from dataclasses import dataclass

import torch

from veristate.core import InputError
from veristate.devices.cuda.coefficients import Coefficients, Products
from veristate.numerics import LinearArithmetic

# The formats that the kernels read.
READ = (torch.float32, torch.bfloat16, torch.float16)


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaWeights:
    """W and b of one layer as they are multiplied, and their sums; stale as soon as the weights change.

    Shapes: W, W_absolute [N, K]; row_sum, row_absolute [K], sums over the columns of Y; bias [N]; bias_sums [2], sum b
    and sum |b|. Dtypes: W and W_absolute in `products`, the others float64. In float64 that is 16 bytes of memory a
    weight, in float32 8 (4 where W is float32 itself, which is then shared and not copied).
    """

    W: torch.Tensor
    W_absolute: torch.Tensor
    row_sum: torch.Tensor
    row_absolute: torch.Tensor
    bias: torch.Tensor
    bias_sums: torch.Tensor
    largest: float
    biased: bool
    products: Products

    @classmethod
    def of(cls, W: torch.Tensor, b: torch.Tensor | None, *, products: Products = "float64") -> "CudaWeights":
        """The layer Y = X W^T + b, W [N, K] in any layout.

        `products` is the format block sums are multiplied in: float64 where the device is made for it (data-centre
        GPUs), float32 elsewhere. Raises: InputError when the shapes don't fit, or a dtype is none of `READ`.
        """
        if W.ndim != 2 or (b is not None and b.shape != (len(W),)):
            raise InputError(f"W [N, K] and b [N] are needed; got {W.shape} and {None if b is None else b.shape}")
        if W.dtype not in READ or (b is not None and b.dtype not in READ):
            raise InputError(f"the guard reads {READ}, not weights in {W.dtype}")
        wide = W.detach().double()
        sizes = wide.abs()
        # What is not finite makes its own cells undecided, not all of them.
        finite = torch.where(torch.isfinite(sizes), sizes, 0.0)
        bias = wide.new_zeros(len(W)) if b is None else b.detach().double()
        narrow = torch.float64 if products == "float64" else torch.float32
        return cls(
            W=W.detach().to(narrow),
            W_absolute=sizes.to(narrow),
            row_sum=wide.sum(dim=0),
            row_absolute=sizes.sum(dim=0),
            bias=bias,
            bias_sums=torch.stack((bias.sum(), bias.abs().sum())),
            largest=float(finite.max()) if finite.numel() else 0.0,
            biased=b is not None,
            products=products,
        )

    def coefficients(self, arithmetic: LinearArithmetic) -> Coefficients:
        """The guard's coefficients of this layer under its declared arithmetic.

        Raises: InputError when the layer has a bias and the declaration none.
        """
        if self.biased and arithmetic.bias == "none":
            raise InputError(
                "the layer has a bias and its declared arithmetic none: say whether it is fused or separate"
            )
        N, K = self.W.shape
        return Coefficients.of(arithmetic, terms=K, columns=N, largest_weight=self.largest, products=self.products)
