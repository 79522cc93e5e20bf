/* The guard's work for processors with AVX-512: see native.py, and passes.py, which falls back to numba without it.
 *
 * Eight rows are read in two halves of four. Along a row, float32 lanes take at most FLUSH additions before they go
 * into float64; across rows, the values of a column are added in pairs, three levels deep, before they do. The number
 * of roundings is what the guard's bound counts on (ALONG_ROUNDINGS, ACROSS_ROUNDINGS in passes.py).
 */
#include <immintrin.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define TARGET __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw,avx512cd,fma,f16c")))
#define INLINE static inline __attribute__((always_inline)) TARGET

enum { HALF = 4, GROUP = 8, LANES = 16, FLUSH = 8, MOST_DRAWS = 16 };
enum { FLOAT32, BFLOAT16, FLOAT16 };
enum { SIGNED = 1, ABSOLUTE = 2 };
enum { VERSION = 4 };  /* of the structures here, which native.py mirrors */

typedef struct {
    const void *matrix, *zeros;  /* zeros: a row of them, for what is missing from the last group */
    const float *signs, *weights, *weights_abs;
    /* In elements: from row to row of the matrix, and from draw to draw of the signs. */
    ptrdiff_t stride, sign_stride, rows, length, block, draws, format;
    double *along, *along_abs;
    /* Sums across the rows of a block, from block to block and from draw to draw; in float32 where `narrow` says so. */
    void *across, *across_abs;
    ptrdiff_t narrow;  /* SIGNED, ABSOLUTE or both */
    double *scratch;  /* three halves of (draws + 1) rows of whole vectors: `scratch_of` */
} pass_t;

INLINE ptrdiff_t padded(ptrdiff_t length) { return (length + LANES - 1) / LANES * LANES; }
INLINE ptrdiff_t scratch_of(ptrdiff_t length, ptrdiff_t draws) { return (draws + 1) * padded(length) * 3 / 2; }
INLINE ptrdiff_t width_of(ptrdiff_t format) { return format == FLOAT32 ? 4 : 2; }
INLINE __m512d low(__m512 v) { return _mm512_cvtps_pd(_mm512_castps512_ps256(v)); }
INLINE __m512d high(__m512 v) { return _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1)); }
INLINE __mmask16 upto(ptrdiff_t left) { return left >= LANES ? 0xffff : (__mmask16)((1u << left) - 1); }

INLINE __m512 load(int format, const void *row, ptrdiff_t j, __mmask16 mask)
{
    if (format == FLOAT32) return _mm512_maskz_loadu_ps(mask, (const float *)row + j);
    __m256i bits = _mm256_maskz_loadu_epi16(mask, (const uint16_t *)row + j);
    if (format == FLOAT16) return _mm512_cvtph_ps(bits);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

INLINE void add_to(double *sum, __m512 v)
{
    _mm512_storeu_pd(sum, _mm512_add_pd(_mm512_loadu_pd(sum), low(v)));
    _mm512_storeu_pd(sum + 8, _mm512_add_pd(_mm512_loadu_pd(sum + 8), high(v)));
}

INLINE __m512 pairs(const __m512 v[HALF])
{
    return _mm512_add_ps(_mm512_add_ps(v[0], v[1]), _mm512_add_ps(v[2], v[3]));
}

INLINE __m512 signed_pairs(const __m512 v[HALF], const float *t)
{
    __m512 one = _mm512_mul_ps(v[0], _mm512_set1_ps(t[0])), two = _mm512_mul_ps(v[2], _mm512_set1_ps(t[2]));
    one = _mm512_fmadd_ps(v[1], _mm512_set1_ps(t[1]), one);
    two = _mm512_fmadd_ps(v[3], _mm512_set1_ps(t[3]), two);
    return _mm512_add_ps(one, two);
}

/* Half a group of rows: into `half` the first, both into the block's sums in float64 the second.
 * `format`, `weighted`, `draws` and `second` are constants at every call, so that the loops unroll. */
INLINE void half_group(const pass_t *p, const char *const row[HALF], const float *signs, int format, int weighted,
                       int draws, int second, double along[HALF], double along_abs[HALF], float *half, double *wide)
{
    ptrdiff_t step = padded(p->length), width = width_of(format), ahead = GROUP * p->stride * width;
    __m512d sum[HALF], sum_abs[HALF];
    for (int g = 0; g < HALF; g++) sum[g] = sum_abs[g] = _mm512_setzero_pd();
    for (ptrdiff_t start = 0; start < p->length; start += FLUSH * LANES) {
        ptrdiff_t stop = start + FLUSH * LANES < p->length ? start + FLUSH * LANES : p->length;
        __m512 part[HALF], part_abs[HALF];
        for (int g = 0; g < HALF; g++) part[g] = part_abs[g] = _mm512_setzero_ps();
        for (ptrdiff_t j = start; j < stop; j += LANES) {
            __mmask16 mask = upto(stop - j);
            __m512 v[HALF], m[HALF];
            for (int g = 0; g < HALF; g++) {
                _mm_prefetch(row[g] + ahead + j * width, _MM_HINT_T0);
                v[g] = load(format, row[g], j, mask);
                m[g] = _mm512_abs_ps(v[g]);
            }
            if (weighted) {
                __m512 w = _mm512_maskz_loadu_ps(mask, p->weights + j);
                __m512 a = _mm512_maskz_loadu_ps(mask, p->weights_abs + j);
                for (int g = 0; g < HALF; g++) {
                    part[g] = _mm512_fmadd_ps(v[g], w, part[g]);
                    part_abs[g] = _mm512_fmadd_ps(m[g], a, part_abs[g]);
                }
            } else {
                for (int g = 0; g < HALF; g++) {
                    part[g] = _mm512_add_ps(part[g], v[g]);
                    part_abs[g] = _mm512_add_ps(part_abs[g], m[g]);
                }
            }
            __m512 across = pairs(m);
            if (second) add_to(wide + j, _mm512_add_ps(across, _mm512_loadu_ps(half + j)));
            else _mm512_storeu_ps(half + j, across);
            for (int d = 0; d < draws; d++) {
                ptrdiff_t at = (d + 1) * step + j;
                across = signed_pairs(v, signs + d * GROUP);
                if (second) add_to(wide + at, _mm512_add_ps(across, _mm512_loadu_ps(half + at)));
                else _mm512_storeu_ps(half + at, across);
            }
        }
        for (int g = 0; g < HALF; g++) {
            sum[g] = _mm512_add_pd(sum[g], _mm512_add_pd(low(part[g]), high(part[g])));
            sum_abs[g] = _mm512_add_pd(sum_abs[g], _mm512_add_pd(low(part_abs[g]), high(part_abs[g])));
        }
    }
    for (int g = 0; g < HALF; g++) {
        along[g] = _mm512_reduce_add_pd(sum[g]);
        along_abs[g] = _mm512_reduce_add_pd(sum_abs[g]);
    }
}

/* Rows i to i + count - 1, at most a group, added to the sums of their block. */
INLINE void group(const pass_t *p, ptrdiff_t i, ptrdiff_t count, int format, int weighted, int draws)
{
    const char *row[GROUP];
    float signs[MOST_DRAWS * GROUP], *half = (float *)(p->scratch + (p->draws + 1) * padded(p->length));
    double along[GROUP], along_abs[GROUP];
    for (int g = 0; g < GROUP; g++)
        row[g] = g < count ? (const char *)p->matrix + (i + g) * p->stride * width_of(format) : p->zeros;
    for (int d = 0; d < draws; d++)
        for (int g = 0; g < GROUP; g++) signs[d * GROUP + g] = g < count ? p->signs[d * p->sign_stride + i + g] : 0.0f;
    half_group(p, row, signs, format, weighted, draws, 0, along, along_abs, half, p->scratch);
    half_group(p, row + HALF, signs + HALF, format, weighted, draws, 1, along + HALF, along_abs + HALF, half,
               p->scratch);
    memcpy(p->along + i, along, (size_t)count * sizeof(double));
    memcpy(p->along_abs + i, along_abs, (size_t)count * sizeof(double));
}

INLINE void store(const pass_t *p, void *out, ptrdiff_t at, const double *in, int kind)
{
    if (!(p->narrow & kind)) {
        memcpy((double *)out + at, in, (size_t)p->length * sizeof(double));
        return;
    }
    for (ptrdiff_t j = 0; j < p->length; j++) ((float *)out)[at + j] = (float)in[j];
}

INLINE void blocks(const pass_t *p, int format, int weighted, int draws)
{
    ptrdiff_t count = (p->rows + p->block - 1) / p->block, step = padded(p->length);
    for (ptrdiff_t b = 0; b < count; b++) {
        ptrdiff_t stop = (b + 1) * p->block < p->rows ? (b + 1) * p->block : p->rows;
        memset(p->scratch, 0, (size_t)((draws + 1) * step) * sizeof(double));
        for (ptrdiff_t i = b * p->block; i < stop; i += GROUP)
            group(p, i, stop - i < GROUP ? stop - i : GROUP, format, weighted, draws);
        store(p, p->across_abs, b * p->length, p->scratch, ABSOLUTE);
        for (ptrdiff_t d = 0; d < draws; d++)
            store(p, p->across, (d * count + b) * p->length, p->scratch + (d + 1) * step, SIGNED);
    }
}

#define BLOCKS(format, name) \
    TARGET static void name(const pass_t *p) \
    { \
        if (p->weights && p->draws == 1) blocks(p, format, 1, 1); \
        else if (p->weights) blocks(p, format, 1, (int)p->draws); \
        else if (p->draws == 1) blocks(p, format, 0, 1); \
        else blocks(p, format, 0, (int)p->draws); \
    }
BLOCKS(FLOAT32, blocks_float32)
BLOCKS(BFLOAT16, blocks_bfloat16)
BLOCKS(FLOAT16, blocks_float16)

TARGET void veristate_pass(const pass_t *p)
{
    if (p->format == FLOAT32) blocks_float32(p);
    else if (p->format == BFLOAT16) blocks_bfloat16(p);
    else blocks_float16(p);
}

#include "sums.h"
#include "product.h"

/* Whether this processor has what is needed, and the caller knows these structures. */
int veristate_usable(int version)
{
    __builtin_cpu_init();
    return version == VERSION && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("fma");
}
