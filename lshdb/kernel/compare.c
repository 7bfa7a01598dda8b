/* Bucket keys of rows, agreement of two rows (signatures/banding.py), common values of two sorted sets. */

#include "bucket_layout.h"
#include "hashing.h"
#include "kernel.h"

enum { COUNTED_AT_ONCE = 1 << 20 };

/* Up to 64 bits of a row from one place on: the lowest is the first. */
static inline uint64_t bits_at(const uint16_t *row, size_t start, size_t length)
{
    const uint16_t *word = row + start / WORD_BITS;
    uint64_t bits = *word >> start % WORD_BITS;
    for (size_t taken = WORD_BITS - start % WORD_BITS; taken < length; taken += WORD_BITS)
        bits |= (uint64_t)*++word << taken;
    return bits & UINT64_MAX >> (64 - length);
}

/* The bits of a band are taken 64 at a time, whatever the width of a slot. */
void bucket_keys(const uint16_t *rows, size_t n, size_t words, int slot_bits, size_t bands,
                 size_t height, uint64_t *keys)
{
    size_t size = height * (size_t)slot_bits;
    for (size_t i = 0; i < n; i++, rows += words)
        for (size_t band = 0; band < bands; band++) {
            uint64_t hash = mix64(band + 1);
            for (size_t done = 0; done < size; done += 64)
                hash = mix64(
                    hash ^ bits_at(rows, band * size + done, size - done < 64 ? size - done : 64));
            *keys++ = (uint64_t)key_from(band, (uint32_t)hash);
        }
}

/* Equal slots of two rows, the number of bands that agree, and the first such band or -1. */
void compare_rows(const Level *level, const uint16_t *left, const uint16_t *right, size_t num_perm,
                  size_t bands, size_t height, int32_t *equal, int32_t *matched, int32_t *first)
{
    *equal = (int32_t)level->count_equal(left, right, num_perm);
    *matched = 0;
    *first = -1;
    for (size_t band = bands; band-- > 0;)
        if (left[band * height] == right[band * height]
            && !memcmp(left + band * height, right + band * height, height * sizeof *left)) {
            *matched += 1;
            *first = (int32_t)band;
        }
}

/* The same for rows whose slots are single bits. */
void compare_bits(const Level *level, const uint16_t *left, const uint16_t *right, size_t words,
                  size_t bands, size_t height, int32_t *equal, int32_t *matched, int32_t *first)
{
    *equal = (int32_t)(WORD_BITS * words - level->count_differing(left, right, words));
    *matched = 0;
    *first = -1;
    for (size_t band = bands; band-- > 0;) {
        int is_equal = 1;
        for (size_t done = 0; done < height && is_equal; done += 64) {
            size_t start = band * height + done, many = height - done < 64 ? height - done : 64;
            is_equal = bits_at(left, start, many) == bits_at(right, start, many);
        }
        if (is_equal) {
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
