"""The Triton kernels of the guard: sums over the tiles of a matrix, and the judgement of rows and of column cells.

Every sum is taken in float64 inside one program and stored by that program alone: nothing is added to memory that
another program writes, so two runs give the same bits. Offsets into matrices are 64-bit: an output may hold more than
2^31 elements. This module alone imports triton; it is imported where the kernels are first needed.
"""

import triton
import triton.language as tl

from veristate.devices.cuda import coefficients, verdicts

# Kernels read constants only in this form.
BLOCK = tl.constexpr(coefficients.BLOCK)
WORD = tl.constexpr(verdicts.WORD)


@triton.jit  # type: ignore[untyped-decorator]
def sum_tiles(
    values: tl.tensor,
    stride: tl.tensor,
    signs: tl.tensor,
    weights: tl.tensor,
    absolute_weights: tl.tensor,
    by_row: tl.tensor,
    signed: tl.tensor,
    absolute: tl.tensor,
    rows: tl.tensor,
    columns: tl.tensor,
    WEIGHTED: tl.constexpr,
    DRAWS: tl.constexpr,
    TILE: tl.constexpr,
    STEP: tl.constexpr,
) -> None:
    """One program a tile of `BLOCK` rows and `TILE` columns, `STEP` at a time: sums by row, plain or weighted, and by
    column under every draw of signs.

    Shapes: values [rows, columns], its rows `stride` elements apart; signs [DRAWS, rows]; weights, absolute_weights
    [columns]; by_row [2, tiles, rows], sums then absolute sums; signed [DRAWS, blocks, columns]; absolute
    [blocks, columns]. Dtypes: float64, but for `values` (float32, bfloat16 or float16) and `signs` (any).
    """
    tiles = tl.cdiv(columns, TILE)
    block = tl.program_id(0) // tiles
    tile = tl.program_id(0) % tiles
    row = block * BLOCK + tl.arange(0, BLOCK)
    row_inside = row < rows
    first = values + row.to(tl.int64)[:, None] * stride
    plane = tl.cast(tl.cdiv(rows, BLOCK), tl.int64) * columns
    # Added lane by lane, and across lanes once at the end: that takes exchanges between lanes for every row.
    row_sum = tl.zeros([BLOCK, STEP], dtype=tl.float64)
    row_size = tl.zeros([BLOCK, STEP], dtype=tl.float64)
    for start in range(tile * TILE, tl.minimum(tile * TILE + TILE, columns), STEP):
        column = start + tl.arange(0, STEP)
        column_inside = column < columns
        value = tl.load(first + column[None, :], mask=row_inside[:, None] & column_inside[None, :], other=0.0)
        # Narrower formats widen through float32, exactly.
        value = value.to(tl.float32).to(tl.float64)
        size = tl.abs(value)
        if WEIGHTED:
            row_sum += value * tl.load(weights + column, mask=column_inside, other=0.0)[None, :]
            row_size += size * tl.load(absolute_weights + column, mask=column_inside, other=0.0)[None, :]
        else:
            row_sum += value
            row_size += size
        cell = block.to(tl.int64) * columns + column
        tl.store(absolute + cell, tl.sum(size, axis=0), mask=column_inside)
        for draw in tl.static_range(DRAWS):
            sign = tl.load(signs + row + draw * rows, mask=row_inside, other=1).to(tl.float64)
            # The bounds hold for signs of +1 and -1: any other makes its block undecided.
            sign = tl.where(sign * sign == 1.0, sign, float("nan"))
            tl.store(signed + draw * plane + cell, tl.sum(value * sign[:, None], axis=0), mask=column_inside)
    sums = by_row + tile.to(tl.int64) * rows + row
    tl.store(sums, tl.sum(row_sum, axis=1), mask=row_inside)
    tl.store(sums + tl.cast(tiles, tl.int64) * rows, tl.sum(row_size, axis=1), mask=row_inside)


@triton.jit  # type: ignore[untyped-decorator]
def judge_rows(
    outputs: tl.tensor,
    output_tiles: tl.tensor,
    inputs: tl.tensor,
    input_tiles: tl.tensor,
    bias_sums: tl.tensor,
    coefficients: tl.tensor,
    bits: tl.tensor,
    counts: tl.tensor,
    rows: tl.tensor,
    columns: tl.tensor,
    CELLS: tl.constexpr,
    TILES: tl.constexpr,
) -> None:
    """One program for `CELLS` rows: their undecided bits, and how many there are.

    Shapes: outputs [2, output_tiles, rows] and inputs [2, input_tiles, rows], `by_row` of `sum_tiles`; bias_sums [2],
    sum b and sum |b|; coefficients [5]; bits [words of rows]; counts [programs].
    Dtypes: float64, but for `bits` and `counts` (int32).
    """
    program = tl.program_id(0)
    row = program * CELLS + tl.arange(0, CELLS)
    inside = row < rows
    observed, stored = _over_tiles(outputs, output_tiles, row, inside, rows, CELLS, TILES)
    expected, products = _over_tiles(inputs, input_tiles, row, inside, rows, CELLS, TILES)
    bias = tl.load(bias_sums + 1)
    residual = observed - (expected + tl.load(bias_sums))
    undecided = _undecided(residual, products + bias, stored, bias, columns, coefficients)
    undecided = tl.where(inside, undecided, 0)
    word = program * (CELLS // WORD) + tl.arange(0, CELLS // WORD)
    tl.store(bits + word, _packed(undecided, CELLS), mask=word < tl.cdiv(rows, WORD))
    tl.store(counts + program, tl.sum(undecided, axis=0))


@triton.jit  # type: ignore[untyped-decorator]
def judge_columns(
    signed: tl.tensor,
    absolute: tl.tensor,
    expected: tl.tensor,
    products: tl.tensor,
    signs: tl.tensor,
    biases: tl.tensor,
    coefficients: tl.tensor,
    bits: tl.tensor,
    counts: tl.tensor,
    rows: tl.tensor,
    columns: tl.tensor,
    DRAWS: tl.constexpr,
    CELLS: tl.constexpr,
) -> None:
    """One program for `CELLS` columns of one block of rows, over every draw: undecided bits, and how many there are.

    Shapes: signed, expected [DRAWS, blocks, columns]; absolute, products [blocks, columns]; signs [DRAWS, rows];
    biases [columns]; coefficients [5]; bits [DRAWS, blocks, words of columns]; counts [programs].
    Dtypes: float64, but for `expected` and `products` (also float32), `signs` (any), `bits` and `counts` (int32).
    """
    groups = tl.cdiv(columns, CELLS)
    block = tl.program_id(0) // groups
    group = tl.program_id(0) % groups
    column = group * CELLS + tl.arange(0, CELLS)
    inside = column < columns
    word = group * (CELLS // WORD) + tl.arange(0, CELLS // WORD)
    words = tl.cdiv(columns, WORD)
    row = block * BLOCK + tl.arange(0, BLOCK)
    blocks = tl.cast(tl.cdiv(rows, BLOCK), tl.int64)
    elements = tl.minimum(rows - block * BLOCK, BLOCK)
    cell = block.to(tl.int64) * columns + column
    stored = tl.load(absolute + cell, mask=inside, other=0.0)
    bias = tl.load(biases + column, mask=inside, other=0.0)
    bias_size = elements * tl.abs(bias)
    product = tl.load(products + cell, mask=inside, other=0.0).to(tl.float64) + bias_size
    count = tl.zeros([CELLS], dtype=tl.int32)
    for draw in tl.static_range(DRAWS):
        sign = tl.load(signs + row + draw * rows, mask=row < rows, other=0).to(tl.float64)
        plane = draw * blocks
        observed = tl.load(signed + plane * columns + cell, mask=inside, other=0.0)
        product_sum = tl.load(expected + plane * columns + cell, mask=inside, other=0.0).to(tl.float64)
        residual = observed - (product_sum + tl.sum(sign, axis=0) * bias)
        undecided = _undecided(residual, product, stored, bias_size, elements, coefficients)
        undecided = tl.where(inside, undecided, 0)
        tl.store(bits + (plane + block) * words + word, _packed(undecided, CELLS), mask=word < words)
        count += undecided
    tl.store(counts + tl.program_id(0), tl.sum(count, axis=0))


@triton.jit  # type: ignore[untyped-decorator]
def _over_tiles(
    partial: tl.tensor,
    tiles: tl.tensor,
    row: tl.tensor,
    inside: tl.tensor,
    rows: tl.tensor,
    CELLS: tl.constexpr,
    TILES: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """The sums and the absolute sums of `CELLS` rows over all tiles, `TILES` of them at a time."""
    sums = tl.zeros([CELLS], dtype=tl.float64)
    sizes = tl.zeros([CELLS], dtype=tl.float64)
    for start in range(0, tiles, TILES):
        tile = start + tl.arange(0, TILES)
        at = partial + tile.to(tl.int64)[:, None] * rows + row[None, :]
        mask = (tile < tiles)[:, None] & inside[None, :]
        sums += tl.sum(tl.load(at, mask=mask, other=0.0), axis=0)
        sizes += tl.sum(tl.load(at + tl.cast(tiles, tl.int64) * rows, mask=mask, other=0.0), axis=0)
    return sums, sizes


@triton.jit  # type: ignore[untyped-decorator]
def _undecided(
    residual: tl.tensor,
    products: tl.tensor,
    stored: tl.tensor,
    bias: tl.tensor,
    elements: tl.tensor,
    coefficients: tl.tensor,
) -> tl.tensor:
    """1 where the residual is not provably within the bound, else 0."""
    bound = tl.load(coefficients) * products + tl.load(coefficients + 1) * stored + tl.load(coefficients + 2) * bias
    bound += elements * tl.load(coefficients + 3) - tl.load(coefficients + 4)
    # A NaN fails both comparisons and an infinite bound the second: neither ever passes.
    passes = (tl.abs(residual) <= bound) & (bound < float("inf"))
    return tl.where(passes, 0, 1)


@triton.jit  # type: ignore[untyped-decorator]
def _packed(undecided: tl.tensor, CELLS: tl.constexpr) -> tl.tensor:
    """`CELLS` zeros and ones as int32 words, the first cell in the lowest bit."""
    lanes = tl.reshape(undecided, [CELLS // WORD, WORD])
    return tl.sum(lanes << tl.arange(0, WORD)[None, :], axis=1)


# Set before triton is first imported, TRITON_INTERPRET=1 makes these plain Python over CPU tensors, for tests.
INTERPRETED = not isinstance(sum_tiles, triton.JITFunction)
