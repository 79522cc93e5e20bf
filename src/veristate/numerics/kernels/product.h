/* Whether all cells of a product Y = X W^T + b surely pass, in one call: a part of passes.c.
 *
 * First the sums of X and of Y, block by block; then, for 32 columns at a time, what the blocks' sums of X let expect,
 * compared while it is in registers. The comparisons are those of judge.py, in float64.
 */
enum { TILE = 8, PANEL = 2 * LANES, STRETCH = 64 };

typedef struct {
    const void *X, *Y, *zeros;
    const float *signs, *narrow_columns, *W;
    const double *b, *norms;
    ptrdiff_t format, X_stride, Y_stride, sign_stride, M, K, N, block, draws;
    /* Columns of W whose |w| make the lower bound of sum |x||w|: runs of them, start and length by turns. */
    const int64_t *runs;
    ptrdiff_t run_count;
    double bias, bias_abs;
    /* Factors of products and of stored, and rests: see the guard. The screen's rest grows with the largest operand. */
    double row_limits[3], limits[4], screen[3], screen_slope, largest;
    double *memory;
    /* Found: how many cells are not surely passed; of those above the screen (draw, block, column), as far as there is
     * room, and their number; the largest residual over its limit and over its screen. */
    int64_t *suspect;
    ptrdiff_t room;
    int64_t undecided, suspects;
    double worst, loudest;
} product_t;

typedef struct {
    float *X, *X_abs, *Y_abs, *panel;
    double *Y, *along, *scratch, *scales, *signs;  /* along: [4, M] of X, |X|, Y, |Y|; signs: sums, [draws, blocks] */
} room_t;

INLINE ptrdiff_t memory_of(const product_t *p, room_t *room)
{
    ptrdiff_t count = (p->M + p->block - 1) / p->block, length = p->K > p->N ? p->K : p->N;
    double *at = p->memory;
    room->along = at, at += 4 * p->M;
    room->scales = at, at += 2 * count;
    room->signs = at, at += p->draws * count;
    room->scratch = at, at += scratch_of(length, p->draws);
    room->Y = at, at += p->draws * count * p->N;
    float *small = (float *)at;
    room->panel = small, small += padded(p->K) * PANEL;
    room->X_abs = small, small += count * p->K;
    room->X = small, small += p->draws * count * p->K;
    room->Y_abs = small, small += count * p->N;
    return at - p->memory + (small - (float *)at) / 2 + 1;
}

/* How many float64 values a call works in. */
TARGET ptrdiff_t veristate_product_memory(const product_t *p)
{
    room_t room;
    return memory_of(p, &room);
}

INLINE double larger(double share, double residual, double level)
{
    return residual > share * level ? residual / level : share;
}

TARGET static void judge_rows(product_t *p, const room_t *room)
{
    const double *expected = room->along, *products = expected + p->M;
    const double *observed = products + p->M, *stored = observed + p->M;
    for (ptrdiff_t i = 0; i < p->M; i++) {
        double residual = fabs(observed[i] - (expected[i] + p->bias)), mass = products[i] + p->bias_abs;
        if (mass == 0.0 && stored[i] == 0.0) continue;
        double limit = p->row_limits[0] * mass + p->row_limits[1] * stored[i] + p->row_limits[2];
        if (!(residual <= limit && limit < INFINITY)) p->undecided++;
        else p->worst = larger(p->worst, residual, limit);
    }
}

/* As `screen_scales` in judge.py, and the screen's rest. */
TARGET static void scales_of(product_t *p, const room_t *room, ptrdiff_t count)
{
    __m512 largest = _mm512_setzero_ps();
    for (ptrdiff_t b = 0; b < count; b++) {
        ptrdiff_t start = b * p->block, stop = start + p->block < p->M ? start + p->block : p->M;
        for (int which = 0; which < 2; which++) {
            const double *sizes = room->along + (which ? 1 : 3) * p->M;
            double total = 0.0, squares = 0.0;
            for (ptrdiff_t i = start; i < stop; i++) total += sizes[i], squares += sizes[i] * sizes[i];
            room->scales[which * count + b] = 0.0 < total && total < INFINITY ? sqrt(squares) / total : 1.0;
        }
        __m512d norm = _mm512_setzero_pd();
        for (ptrdiff_t k = 0; k < p->K; k += LANES) {
            __m512 s = _mm512_maskz_loadu_ps(upto(p->K - k), room->X_abs + b * p->K + k);
            norm = _mm512_fmadd_pd(low(s), low(s), _mm512_fmadd_pd(high(s), high(s), norm));
            largest = _mm512_max_ps(largest, s);
        }
        room->scales[count + b] *= sqrt(_mm512_reduce_add_pd(norm));
    }
    double sum = _mm512_reduce_max_ps(largest);
    if (p->screen_slope != 0.0) p->screen[2] += p->screen_slope * (sum > p->largest ? sum : p->largest);
}

/* W's rows j to j + 31 as columns: panel[k][32], zeros where there is none. */
TARGET static void pack(const product_t *p, ptrdiff_t j, float *panel)
{
    static const int index[4][LANES] = {{0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30},
                                        {0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29},
                                        {0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27},
                                        {0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23}};
    for (int side = 0; side < PANEL; side += LANES)
        for (ptrdiff_t k = 0; k < p->K; k += LANES) {
            __m512 r[LANES];
#pragma GCC unroll 16
            for (int g = 0; g < LANES; g++) {
                int there = j + side + g < p->N;
                const float *from = p->W + (there ? (j + side + g) * p->K + k : 0);
                r[g] = _mm512_maskz_loadu_ps(there ? upto(p->K - k) : 0, from);
            }
#pragma GCC unroll 4
            for (int level = 0; level < 4; level++) {
                int far = 1 << level;
                __m512i one = _mm512_loadu_si512(index[level]), two = _mm512_add_epi32(one, _mm512_set1_epi32(far));
#pragma GCC unroll 16
                for (int g = 0; g < LANES; g++) {
                    if (g & far) continue;
                    __m512 a = r[g], b = r[g + far];
                    r[g] = _mm512_permutex2var_ps(a, one, b);
                    r[g + far] = _mm512_permutex2var_ps(a, two, b);
                }
            }
#pragma GCC unroll 16
            for (int g = 0; g < LANES; g++) _mm512_storeu_ps(panel + (k + g) * PANEL + side, r[g]);
        }
}

/* Adds to `sum` row[r][k] times the panel's row k, or times its absolute values, for k from start to stop: in
 * stretches, whose roundings add up to less than those of one long sum. */
INLINE void add_tile(const float *panel, const float *const row[TILE], ptrdiff_t start, ptrdiff_t stop, int absolute,
                     __m512 sum[TILE][2])
{
    for (; start < stop; start += STRETCH) {
        ptrdiff_t end = start + STRETCH < stop ? start + STRETCH : stop;
        __m512 part[TILE][2];
        for (int r = 0; r < TILE; r++) part[r][0] = part[r][1] = _mm512_setzero_ps();
        for (ptrdiff_t k = start; k < end; k++) {
            __m512 one = _mm512_loadu_ps(panel + k * PANEL), two = _mm512_loadu_ps(panel + k * PANEL + LANES);
            if (absolute) one = _mm512_abs_ps(one), two = _mm512_abs_ps(two);
#pragma GCC unroll 8
            for (int r = 0; r < TILE; r++) {
                __m512 s = _mm512_set1_ps(row[r][k]);
                part[r][0] = _mm512_fmadd_ps(s, one, part[r][0]);
                part[r][1] = _mm512_fmadd_ps(s, two, part[r][1]);
            }
        }
        for (int r = 0; r < TILE; r++)
            for (int h = 0; h < 2; h++) sum[r][h] = _mm512_add_ps(sum[r][h], part[r][h]);
    }
}

typedef struct {
    ptrdiff_t draw, block;
    double t, n, rest, floor, by_stored, by_norms;
    int empty, finite;
} cell_t;

INLINE __m512d wide(const float *at, __mmask8 mask) { return _mm512_cvtps_pd(_mm256_maskz_loadu_ps(mask, at)); }

/* One cell: its residual, what it is compared with, and whether nothing at all went into it. */
TARGET static void judge_cell(product_t *p, const cell_t *c, ptrdiff_t j, double see, float mass, float want,
                              float least)
{
    double b = p->b[j], norm = p->norms[j];
    double residual = fabs(see - (want + c->t * b));
    double limit = p->limits[0] * (least + c->n * fabs(b)) + p->limits[1] * mass + c->rest;
    double level = c->by_stored * mass + c->by_norms * norm + c->floor;
    if (mass == 0.0f && b == 0.0 && (c->empty || (c->finite && norm == 0.0))) return;
    if (!(residual <= limit && limit < INFINITY)) p->undecided++;
    if (!(residual <= level) && p->suspects++ < p->room) {
        int64_t *at = p->suspect + 3 * (p->suspects - 1);
        at[0] = c->draw, at[1] = c->block, at[2] = j;
    }
    p->worst = larger(p->worst, residual, limit);
    p->loudest = larger(p->loudest, residual, level);
}

/* The 32 or fewer columns from j of one block and draw, eight at a time: only where one of them is above all before, or
 * above its limit, are they looked at one by one. */
INLINE void judge_cells(product_t *p, const cell_t *c, ptrdiff_t j, ptrdiff_t width, const double *see,
                        const float *mass, const float *want, const float *least)
{
    const __m512d t = _mm512_set1_pd(c->t), n = _mm512_set1_pd(c->n), rest = _mm512_set1_pd(c->rest);
    const __m512d floor = _mm512_set1_pd(c->floor), infinite = _mm512_set1_pd(INFINITY);
    for (ptrdiff_t i = 0; i < width; i += 8) {
        __mmask8 mask = (__mmask8)(width - i >= 8 ? 0xff : (1u << (width - i)) - 1);
        __m512d b = _mm512_maskz_loadu_pd(mask, p->b + j + i), norm = _mm512_maskz_loadu_pd(mask, p->norms + j + i);
        __m512d stored = wide(mass + i, mask);
        __m512d expected = _mm512_fmadd_pd(t, b, wide(want + i, mask));
        __m512d residual = _mm512_abs_pd(_mm512_sub_pd(_mm512_maskz_loadu_pd(mask, see + i), expected));
        __m512d products = _mm512_fmadd_pd(n, _mm512_abs_pd(b), wide(least + i, mask));
        __m512d limit = _mm512_fmadd_pd(_mm512_set1_pd(p->limits[1]), stored, rest);
        limit = _mm512_fmadd_pd(_mm512_set1_pd(p->limits[0]), products, limit);
        __m512d level = _mm512_fmadd_pd(_mm512_set1_pd(c->by_norms), norm, floor);
        level = _mm512_fmadd_pd(_mm512_set1_pd(c->by_stored), stored, level);
        __m512d known = _mm512_mul_pd(_mm512_set1_pd(p->worst < 1.0 ? p->worst : 1.0), limit);
        __m512d heard = _mm512_mul_pd(_mm512_set1_pd(p->loudest < 1.0 ? p->loudest : 1.0), level);
        __mmask8 quiet = _mm512_cmp_pd_mask(residual, known, _CMP_LE_OQ);
        quiet &= _mm512_cmp_pd_mask(limit, infinite, _CMP_LT_OQ) & _mm512_cmp_pd_mask(residual, heard, _CMP_LE_OQ);
        if ((quiet & mask) == mask) continue;
        for (ptrdiff_t k = i; k < width && k < i + 8; k++) judge_cell(p, c, j + k, see[k], mass[k], want[k], least[k]);
    }
}

INLINE void judge_tile(product_t *p, const room_t *room, ptrdiff_t count, ptrdiff_t j, ptrdiff_t first)
{
    const float *row[TILE], *row_abs[TILE];
    ptrdiff_t last = p->draws * count - 1, width = p->N - j < PANEL ? p->N - j : PANEL;
    for (int r = 0; r < TILE; r++) {
        ptrdiff_t at = first + r < last ? first + r : last;
        row[r] = room->X + at * p->K;
        row_abs[r] = room->X_abs + at % count * p->K;
    }
    __m512 sum[TILE][2], least[TILE][2];
    for (int r = 0; r < TILE; r++) sum[r][0] = sum[r][1] = least[r][0] = least[r][1] = _mm512_setzero_ps();
    add_tile(room->panel, row, 0, p->K, 0, sum);
    for (ptrdiff_t n = 0; n < p->run_count; n++)
        add_tile(room->panel, row_abs, p->runs[2 * n], p->runs[2 * n] + p->runs[2 * n + 1], 1, least);
    float wanted[TILE][PANEL], lower[TILE][PANEL];
    for (int r = 0; r < TILE; r++)
        for (int h = 0; h < 2; h++) {
            _mm512_storeu_ps(wanted[r] + h * LANES, sum[r][h]);
            _mm512_storeu_ps(lower[r] + h * LANES, least[r][h]);
        }
    for (ptrdiff_t r = 0; r < TILE && first + r <= last; r++) {
        ptrdiff_t at = first + r, block = at % count;
        double n = (block + 1) * p->block < p->M ? p->block : p->M - block * p->block;
        double scale = room->scales[count + block];
        cell_t c = {at / count, block, room->signs[at], n, p->limits[2] * n + p->limits[3], p->screen[2] * n,
                    p->screen[0] * room->scales[block], p->screen[1] * scale, scale == 0.0, scale < INFINITY};
        judge_cells(p, &c, j, width, room->Y + at * p->N + j, room->Y_abs + block * p->N + j, wanted[r], lower[r]);
    }
}

/* The sums of the signs of each draw's blocks; small integers. */
INLINE void sign_sums(const product_t *p, ptrdiff_t count, double *sums)
{
    for (ptrdiff_t at = 0; at < p->draws * count; at++) {
        ptrdiff_t d = at / count, start = at % count * p->block;
        ptrdiff_t stop = start + p->block < p->M ? start + p->block : p->M;
        double sum = 0.0;
        for (ptrdiff_t i = start; i < stop; i++) sum += p->signs[d * p->sign_stride + i];
        sums[at] = sum;
    }
}

TARGET void veristate_product(product_t *p)
{
    room_t room;
    memory_of(p, &room);
    ptrdiff_t count = (p->M + p->block - 1) / p->block;
    pass_t X = {.matrix = p->X, .stride = p->X_stride, .length = p->K, .weights = p->narrow_columns,
                .weights_abs = p->narrow_columns + p->K, .along = room.along, .along_abs = room.along + p->M,
                .across = room.X, .across_abs = room.X_abs, .narrow = SIGNED | ABSOLUTE, .zeros = p->zeros,
                .signs = p->signs, .sign_stride = p->sign_stride, .rows = p->M, .block = p->block, .draws = p->draws,
                .format = p->format, .scratch = room.scratch};
    pass_t Y = {.matrix = p->Y, .stride = p->Y_stride, .length = p->N, .along = room.along + 2 * p->M,
                .along_abs = room.along + 3 * p->M, .across = room.Y, .across_abs = room.Y_abs, .narrow = ABSOLUTE,
                .zeros = p->zeros,
                .signs = p->signs, .sign_stride = p->sign_stride, .rows = p->M, .block = p->block, .draws = p->draws,
                .format = p->format, .scratch = room.scratch};
    veristate_pass(&Y);
    veristate_pass(&X);
    p->undecided = p->suspects = 0, p->worst = p->loudest = 0.0;
    judge_rows(p, &room);
    scales_of(p, &room, count);
    sign_sums(p, count, room.signs);
    for (ptrdiff_t j = 0; j < p->N && !p->undecided; j += PANEL) {
        pack(p, j, room.panel);
        for (ptrdiff_t first = 0; first < p->draws * count; first += TILE) judge_tile(p, &room, count, j, first);
    }
}
