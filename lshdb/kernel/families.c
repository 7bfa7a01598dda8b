/* Inner loops of families other than min-hash: the Walsh-Hadamard transform (projections.py) and
   consistent weighted sampling (weighted.py). */

#include <math.h>

#include "hashing.h"
#include "kernel.h"

/* Adds pairs at distance 1, then 2, 4 and so on. The order is part of the definition, because it
   decides how sums are rounded. */
void walsh_hadamard(double *row, size_t size)
{
    for (size_t half = 1; half < size; half *= 2)
        for (size_t begin = 0; begin < size; begin += 2 * half) {
            double *left = row + begin, *right = left + half;
            for (size_t i = 0; i < half; i++) {
                double sum = left[i] + right[i], difference = left[i] - right[i];
                left[i] = sum;
                right[i] = difference;
            }
        }
}

enum { SAMPLED_AT_ONCE = 1 << 20 };

/* Product of the two halves of a word as numbers in (0, 1). */
static inline double product(uint64_t word)
{
    return ((double)(uint32_t)(word >> 32) + 0.5) * ((double)(uint32_t)word + 0.5) * 0x1p-64;
}

/* c q / S, the lower bound of a, rules out most elements; the first terms of c = -ln p rule out most
   of those without computing c. */
int sample_weights(const uint64_t *hashes, const double *weights, const double *logs, size_t n,
                   uint32_t num_perm, const uint64_t *keys, uint16_t *row, const Listener *listener)
{
    size_t unheard = 0;
    for (uint32_t j = 0; j < num_perm; j++, keys += 3) {
        double least = INFINITY, bound = INFINITY;
        uint64_t sampled = 0;
        for (size_t i = 0; i < n; i++) {
            unheard++;
            if (unheard == SAMPLED_AT_ONCE) {
                unheard = 0;
                if (is_stopped(listener))
                    return WORK_STOPPED;
            }
            double p = product(mix64(hashes[i] ^ keys[0])), rest = 1.0 - p;
            double q = product(mix64(hashes[i] ^ keys[1])), limit = bound * weights[i];
            if (rest * (1.0 + rest * (0.5 + rest * (1.0 / 3.0))) * q > limit)
                continue;
            double c = -log(p);
            if (c * q > limit)
                continue;
            double b = ((double)(mix64(hashes[i] ^ keys[2]) >> 12) + 0.5) * 0x1p-52;
            double r = -log(q), t = floor(logs[i] / r + b), log_a = log(c) - r * (t - b + 1.0);
            if (log_a < least && fabs(t) < 0x1p62) { /* no number overflows, for any weights */
                least = log_a;
                bound = exp(log_a) * (1.0 + 1e-9);
                sampled = hashes[i] + (uint64_t)(int64_t)t * UINT64_C(0x9E3779B97F4A7C15);
            }
        }
        row[j] = (uint16_t)mix64(sampled);
    }
    return WORK_DONE;
}
