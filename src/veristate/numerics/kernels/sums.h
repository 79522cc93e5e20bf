/* Sums by destination, what a layer's weights give, and signs: parts of passes.c. */

/* Row i of a matrix goes to index[i], with that destination's sign, into the sums of the destination's block. Up to
 * four neighbours that go into one block are added in pairs first. */
typedef struct {
    const float *matrix, *signs, *zeros;
    const int64_t *index;
    ptrdiff_t stride, rows, length, block;
    double *across, *across_abs;  /* rows of whole vectors */
} scatter_t;

TARGET void veristate_scatter(const scatter_t *p)
{
    ptrdiff_t step = padded(p->length);
    for (ptrdiff_t i = 0, n; i < p->rows; i += n) {
        ptrdiff_t block = p->index[i] / p->block;
        const float *row[HALF];
        float signs[HALF];
        for (n = 0; n < HALF && i + n < p->rows && p->index[i + n] / p->block == block; n++) {
            row[n] = p->matrix + (i + n) * p->stride;
            signs[n] = p->signs[p->index[i + n]];
        }
        for (ptrdiff_t g = n; g < HALF; g++) row[g] = p->zeros, signs[g] = 0.0f;
        double *across = p->across + block * step, *across_abs = p->across_abs + block * step;
        for (ptrdiff_t j = 0; j < p->length; j += LANES) {
            __mmask16 mask = upto(p->length - j);
            __m512 v[HALF], m[HALF];
            for (int g = 0; g < HALF; g++) {
                _mm_prefetch((const char *)(row[g] + GROUP * p->stride + j), _MM_HINT_T0);
                v[g] = _mm512_maskz_loadu_ps(mask, row[g] + j);
                m[g] = _mm512_abs_ps(v[g]);
            }
            add_to(across + j, signed_pairs(v, signs));
            add_to(across_abs + j, pairs(m));
        }
    }
}

/* Whether all blocks of sums by destination surely pass, as `judge_sums` in judge.py: a factor of the products and a
 * rest for each block in limits [blocks, 2]. Fills in the largest residual over its limit. */
TARGET int veristate_judge_sums(const double *observed, const double *stored, const double *expected,
                                const double *products, ptrdiff_t blocks, ptrdiff_t length, const double *limits,
                                double lost, double *worst)
{
    const __m512d none = _mm512_setzero_pd(), infinite = _mm512_set1_pd(INFINITY);
    ptrdiff_t step = padded(length);
    *worst = 0.0;
    for (ptrdiff_t b = 0; b < blocks; b++)
        for (ptrdiff_t j = 0; j < length; j += 8) {
            __mmask8 mask = (__mmask8)upto(length - j);
            __m512d mass = _mm512_maskz_loadu_pd(mask, products + b * step + j);
            __m512d sums = _mm512_maskz_loadu_pd(mask, stored + b * length + j);
            __m512d residual = _mm512_sub_pd(_mm512_maskz_loadu_pd(mask, observed + b * length + j),
                                             _mm512_maskz_loadu_pd(mask, expected + b * step + j));
            residual = _mm512_abs_pd(residual);
            __m512d limit = _mm512_fnmadd_pd(_mm512_set1_pd(lost), sums, _mm512_set1_pd(limits[2 * b + 1]));
            limit = _mm512_fmadd_pd(_mm512_set1_pd(limits[2 * b]), mass, limit);
            mask &= _mm512_cmp_pd_mask(mass, none, _CMP_NEQ_UQ) | _mm512_cmp_pd_mask(sums, none, _CMP_NEQ_UQ);
            __mmask8 fine = _mm512_cmp_pd_mask(residual, limit, _CMP_LE_OQ);
            fine &= _mm512_cmp_pd_mask(limit, infinite, _CMP_LT_OQ);
            if (mask & ~fine) return 0;
            __m512d known = _mm512_mul_pd(_mm512_set1_pd(*worst), limit);
            mask &= _mm512_cmp_pd_mask(residual, known, _CMP_GT_OQ);
            if (mask) *worst = _mm512_mask_reduce_max_pd(mask, _mm512_div_pd(residual, limit));
        }
    return 1;
}

/* sum_j w_j and sum_j |w_j| in the order of j, a part of the definition; the smallest absolute value above zero and the
 * largest finite one; about the Euclidean norm of each row. */
TARGET void veristate_weights(const float *W, ptrdiff_t N, ptrdiff_t K, double *columns, double *sizes, double *norms)
{
    const __m512 infinite = _mm512_set1_ps(INFINITY), zero = _mm512_setzero_ps();
    __m512 smallest = infinite, largest = zero;
    memset(columns, 0, (size_t)(2 * K) * sizeof(double));
    for (ptrdiff_t j = 0; j < N; j++) {
        __m512d squares = _mm512_setzero_pd();
        for (ptrdiff_t k = 0; k < K; k += LANES) {
            __mmask16 mask = upto(K - k);
            __m512 w = _mm512_maskz_loadu_ps(mask, W + j * K + k), m = _mm512_abs_ps(w);
            for (int h = 0; h < 2; h++) {
                __mmask8 own = (__mmask8)(mask >> (8 * h));
                __m512d v = h ? high(w) : low(w), a = h ? high(m) : low(m);
                double *sum = columns + k + 8 * h;
                _mm512_mask_storeu_pd(sum, own, _mm512_add_pd(_mm512_maskz_loadu_pd(own, sum), v));
                _mm512_mask_storeu_pd(sum + K, own, _mm512_add_pd(_mm512_maskz_loadu_pd(own, sum + K), a));
                squares = _mm512_fmadd_pd(v, v, squares);
            }
            __mmask16 less = _mm512_cmp_ps_mask(zero, m, _CMP_LT_OQ) & _mm512_cmp_ps_mask(m, smallest, _CMP_LT_OQ);
            __mmask16 more = _mm512_cmp_ps_mask(largest, m, _CMP_LT_OQ) & _mm512_cmp_ps_mask(m, infinite, _CMP_LT_OQ);
            smallest = _mm512_mask_mov_ps(smallest, less, m);
            largest = _mm512_mask_mov_ps(largest, more, m);
        }
        norms[j] = sqrt(_mm512_reduce_add_pd(squares));
    }
    sizes[0] = _mm512_reduce_min_ps(smallest);
    sizes[1] = _mm512_reduce_max_ps(largest);
}

/* The signs of a stream of bits, the highest of each byte first: a bit of 1 is -1. */
TARGET void veristate_signs(const unsigned char *stream, ptrdiff_t count, float *signs)
{
    const __m512i bits = _mm512_set_epi32(0x100, 0x200, 0x400, 0x800, 0x1000, 0x2000, 0x4000, 0x8000,
                                          0x1, 0x2, 0x4, 0x8, 0x10, 0x20, 0x40, 0x80);
    const __m512 plus = _mm512_set1_ps(1.0f), minus = _mm512_set1_ps(-1.0f);
    for (ptrdiff_t i = 0; i < count; i += LANES) {
        int two = stream[i / 8] | (i + 8 < count ? stream[i / 8 + 1] << 8 : 0);
        __mmask16 set = _mm512_test_epi32_mask(_mm512_set1_epi32(two), bits);
        _mm512_mask_storeu_ps(signs + i, upto(count - i), _mm512_mask_mov_ps(plus, set, minus));
    }
}
