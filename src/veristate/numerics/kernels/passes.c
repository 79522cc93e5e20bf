/* The streaming pass of the guard for processors with AVX-512: see passes.py, which falls back to numba without it.
 *
 * Eight rows are read side by side. Along a row, float32 lanes take at most FLUSH additions before they go into float64;
 * across rows, the eight values of a column are added in pairs, three levels deep, before they do. The number of
 * roundings is what the guard's bound counts on (ALONG_ROUNDINGS, ACROSS_ROUNDINGS in passes.py).
 */
#include <immintrin.h>
#include <stddef.h>
#include <string.h>

#define TARGET __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw")))
#define INLINE static inline __attribute__((always_inline)) TARGET

enum { GROUP = 8, LANES = 16, FLUSH = 8, MOST_DRAWS = 16 };

typedef struct {
    const float *matrix, *signs, *weights, *weights_abs, *zeros;
    ptrdiff_t stride, rows, length, block, draws;
    double *along, *along_abs;
    /* Sums across rows: in float64, or where `narrow` is set in float32, by way of one block's sums in float64. */
    double *across, *across_abs;
    float *narrow, *narrow_abs;
} pass_t;

INLINE __m512d low(__m512 v) { return _mm512_cvtps_pd(_mm512_castps512_ps256(v)); }
INLINE __m512d high(__m512 v) { return _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1)); }

INLINE void add_to(double *sum, __m512 v, __mmask16 mask)
{
    __mmask8 l = (__mmask8)mask, h = (__mmask8)(mask >> 8);
    _mm512_mask_storeu_pd(sum, l, _mm512_add_pd(_mm512_maskz_loadu_pd(l, sum), low(v)));
    _mm512_mask_storeu_pd(sum + 8, h, _mm512_add_pd(_mm512_maskz_loadu_pd(h, sum + 8), high(v)));
}

INLINE __m512 pairs(const __m512 v[GROUP])
{
    return _mm512_add_ps(_mm512_add_ps(_mm512_add_ps(v[0], v[1]), _mm512_add_ps(v[2], v[3])),
                         _mm512_add_ps(_mm512_add_ps(v[4], v[5]), _mm512_add_ps(v[6], v[7])));
}

/* One group of rows, added to the sums of its block, which lie `step` apart for one draw and the next.
 * `weighted` and `draws` are constants at every call, so that the loops unroll. */
INLINE void group(const pass_t *p, const float *const row[GROUP], const float *signs, int weighted, int draws,
                  double along[GROUP], double along_abs[GROUP], double *across, double *across_abs, ptrdiff_t step)
{
    ptrdiff_t ahead = GROUP * p->stride;
    __m512d sum[GROUP], sum_abs[GROUP];
    for (int g = 0; g < GROUP; g++) sum[g] = sum_abs[g] = _mm512_setzero_pd();
    for (ptrdiff_t start = 0; start < p->length; start += FLUSH * LANES) {
        ptrdiff_t stop = start + FLUSH * LANES < p->length ? start + FLUSH * LANES : p->length;
        __m512 part[GROUP], part_abs[GROUP];
        for (int g = 0; g < GROUP; g++) part[g] = part_abs[g] = _mm512_setzero_ps();
        for (ptrdiff_t j = start; j < stop; j += LANES) {
            __mmask16 mask = stop - j >= LANES ? 0xffff : (__mmask16)((1u << (stop - j)) - 1);
            __m512 v[GROUP], m[GROUP];
            for (int g = 0; g < GROUP; g++) {
                _mm_prefetch((const char *)(row[g] + ahead + j), _MM_HINT_T0);
                v[g] = _mm512_maskz_loadu_ps(mask, row[g] + j);
                m[g] = _mm512_abs_ps(v[g]);
            }
            if (weighted) {
                __m512 w = _mm512_maskz_loadu_ps(mask, p->weights + j);
                __m512 a = _mm512_maskz_loadu_ps(mask, p->weights_abs + j);
                for (int g = 0; g < GROUP; g++) {
                    part[g] = _mm512_fmadd_ps(v[g], w, part[g]);
                    part_abs[g] = _mm512_fmadd_ps(m[g], a, part_abs[g]);
                }
            } else {
                for (int g = 0; g < GROUP; g++) {
                    part[g] = _mm512_add_ps(part[g], v[g]);
                    part_abs[g] = _mm512_add_ps(part_abs[g], m[g]);
                }
            }
            add_to(across_abs + j, pairs(m), mask);
            for (int d = 0; d < draws; d++) {
                __m512 s[GROUP];
                for (int g = 0; g < GROUP; g++) s[g] = _mm512_mul_ps(v[g], _mm512_set1_ps(signs[d * GROUP + g]));
                add_to(across + d * step + j, pairs(s), mask);
            }
        }
        for (int g = 0; g < GROUP; g++) {
            sum[g] = _mm512_add_pd(sum[g], _mm512_add_pd(low(part[g]), high(part[g])));
            sum_abs[g] = _mm512_add_pd(sum_abs[g], _mm512_add_pd(low(part_abs[g]), high(part_abs[g])));
        }
    }
    for (int g = 0; g < GROUP; g++) {
        along[g] = _mm512_reduce_add_pd(sum[g]);
        along_abs[g] = _mm512_reduce_add_pd(sum_abs[g]);
    }
}

INLINE void rows_of(const pass_t *p, ptrdiff_t i, ptrdiff_t count, double *across, double *across_abs, ptrdiff_t step)
{
    const float *row[GROUP];
    float signs[MOST_DRAWS * GROUP];
    double along[GROUP], along_abs[GROUP];
    for (int g = 0; g < GROUP; g++) row[g] = g < count ? p->matrix + (i + g) * p->stride : p->zeros;
    for (int d = 0; d < p->draws; d++)
        for (int g = 0; g < GROUP; g++) signs[d * GROUP + g] = g < count ? p->signs[d * p->rows + i + g] : 0.0f;
    if (p->weights && p->draws == 1) group(p, row, signs, 1, 1, along, along_abs, across, across_abs, step);
    else if (p->weights) group(p, row, signs, 1, (int)p->draws, along, along_abs, across, across_abs, step);
    else if (p->draws == 1) group(p, row, signs, 0, 1, along, along_abs, across, across_abs, step);
    else group(p, row, signs, 0, (int)p->draws, along, along_abs, across, across_abs, step);
    memcpy(p->along + i, along, (size_t)count * sizeof(double));
    memcpy(p->along_abs + i, along_abs, (size_t)count * sizeof(double));
}

TARGET static void narrowed(float *out, const double *in, ptrdiff_t length)
{
    for (ptrdiff_t j = 0; j < length; j++) out[j] = (float)in[j];
}

TARGET void veristate_pass(const pass_t *p)
{
    ptrdiff_t blocks = (p->rows + p->block - 1) / p->block, step = p->narrow ? p->length : blocks * p->length;
    for (ptrdiff_t b = 0; b < blocks; b++) {
        ptrdiff_t at = b * p->length, stop = (b + 1) * p->block < p->rows ? (b + 1) * p->block : p->rows;
        double *across = p->narrow ? p->across : p->across + at, *across_abs = p->narrow ? p->across_abs : p->across_abs + at;
        memset(across_abs, 0, (size_t)p->length * sizeof(double));
        for (ptrdiff_t d = 0; d < p->draws; d++) memset(across + d * step, 0, (size_t)p->length * sizeof(double));
        for (ptrdiff_t i = b * p->block; i < stop; i += GROUP)
            rows_of(p, i, stop - i < GROUP ? stop - i : GROUP, across, across_abs, step);
        if (!p->narrow) continue;
        narrowed(p->narrow_abs + at, across_abs, p->length);
        for (ptrdiff_t d = 0; d < p->draws; d++)
            narrowed(p->narrow + d * blocks * p->length + at, across + d * step, p->length);
    }
}

/* Sums of rows of a matrix by destination: row i goes to index[i], with that destination's sign, into the sums of the
 * destination's block. All in float64. */
typedef struct {
    const float *matrix, *signs;
    const long long *index;
    ptrdiff_t stride, rows, length, block;
    double *across, *across_abs;
} scatter_t;

TARGET void veristate_scatter(const scatter_t *p)
{
    for (ptrdiff_t i = 0; i < p->rows; i++) {
        const float *row = p->matrix + i * p->stride;
        ptrdiff_t at = p->index[i] / p->block * p->length;
        double *across = p->across + at, *across_abs = p->across_abs + at;
        __m512 sign = _mm512_set1_ps(p->signs[p->index[i]]);
        for (ptrdiff_t j = 0; j < p->length; j += LANES) {
            __mmask16 mask = p->length - j >= LANES ? 0xffff : (__mmask16)((1u << (p->length - j)) - 1);
            _mm_prefetch((const char *)(row + GROUP * p->stride + j), _MM_HINT_T0);
            __m512 v = _mm512_maskz_loadu_ps(mask, row + j);
            add_to(across + j, _mm512_mul_ps(v, sign), mask);
            add_to(across_abs + j, _mm512_abs_ps(v), mask);
        }
    }
}

int veristate_usable(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw");
}
