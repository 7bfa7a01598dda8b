/* Bucket keys of rows, agreement of two rows (signatures/banding.py), common values of two sorted sets. */

#include "bucket_layout.h"
#include "hashing.h"
#include "kernel.h"

enum { COUNTED_AT_ONCE = 1 << 20 };

void bucket_keys(const uint32_t *rows, size_t n, size_t num_perm, size_t bands, size_t height,
                 uint64_t *keys)
{
    for (size_t i = 0; i < n; i++, rows += num_perm)
        for (size_t band = 0; band < bands; band++) {
            const uint32_t *slots = rows + band * height;
            uint64_t hash = mix64(band + 1);
            for (size_t j = 0; j < height; j++)
                hash = mix64(hash ^ slots[j]);
            *keys++ = (uint64_t)key_from(band, (uint32_t)hash);
        }
}

/* Equal slots of two rows, the number of bands that agree, and the first such band or -1. */
void compare_rows(const Level *level, const uint32_t *left, const uint32_t *right, size_t num_perm,
                  size_t bands, size_t height, int32_t *equal, int32_t *matched, int32_t *first)
{
    *equal = (int32_t)level->count_equal(left, right, num_perm);
    *matched = 0;
    *first = -1;
    for (size_t band = bands; band-- > 0;)
        if (!memcmp(left + band * height, right + band * height, height * sizeof *left)) {
            *matched += 1;
            *first = (int32_t)band;
        }
}

/* Up to 32 of the bits in which two rows differ, starting at one place. */
static uint64_t differing_bits(const uint32_t *left, const uint32_t *right, size_t start,
                               size_t length)
{
    size_t word = start / 32, shift = start % 32;
    uint64_t bits = left[word] ^ right[word];
    if (shift + length > 32)
        bits |= (uint64_t)(left[word + 1] ^ right[word + 1]) << 32;
    return bits >> shift & ((UINT64_C(1) << length) - 1);
}

/* The same for rows whose slots are single bits, 32 to a word, the least significant first. */
void compare_bits(const Level *level, const uint32_t *left, const uint32_t *right, size_t words,
                  size_t bands, size_t height, int32_t *equal, int32_t *matched, int32_t *first)
{
    *equal = (int32_t)(32 * words - level->count_differing(left, right, words));
    *matched = 0;
    *first = -1;
    for (size_t band = bands; band-- > 0;) {
        uint64_t differing = 0;
        for (size_t j = 0; j < height && !differing; j += 32)
            differing =
                differing_bits(left, right, band * height + j, height - j < 32 ? height - j : 32);
        if (!differing) {
            *matched += 1;
            *first = (int32_t)band;
        }
    }
}

size_t count_common(const uint64_t *left, size_t n_left, const uint64_t *right, size_t n_right,
                    const Listener *listener)
{
    size_t i = 0, j = 0, common = 0, unheard = 0;
    while (i < n_left && j < n_right) {
        /* A step advances each side by at most one, so this many steps stay inside both arrays. */
        size_t steps = n_left - i < n_right - j ? n_left - i : n_right - j;
        steps = steps < COUNTED_AT_ONCE ? steps : COUNTED_AT_ONCE;
        for (size_t step = 0; step < steps; step++) {
            uint64_t a = left[i], b = right[j];
            common += a == b;
            i += a <= b;
            j += b <= a;
        }
        unheard += steps;
        if (unheard < COUNTED_AT_ONCE)
            continue;
        unheard = 0;
        if (is_stopped(listener))
            return NOT_COUNTED;
    }
    return common;
}
