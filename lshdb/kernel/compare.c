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
uint64_t bucket_key(const uint16_t *row, int slot_bits, size_t band, size_t height)
{
    size_t size = height * (size_t)slot_bits;
    uint64_t hash = mix64(band + 1);
    for (size_t done = 0; done < size; done += 64)
        hash = mix64(hash ^ bits_at(row, band * size + done, size - done < 64 ? size - done : 64));
    return (uint64_t)key_from(band, (uint32_t)hash);
}

void bucket_keys(const uint16_t *rows, size_t n, size_t words, int slot_bits, size_t bands,
                 size_t height, uint64_t *keys)
{
    for (size_t i = 0; i < n; i++, rows += words)
        for (size_t band = 0; band < bands; band++)
            *keys++ = bucket_key(rows, slot_bits, band, height);
}

/* Equal slots of two rows, the number of bands that agree, and the first such band or -1. */
void compare_rows(const Level *level, const uint16_t *left, const uint16_t *right, size_t num_perm,
                  size_t bands, size_t height, int32_t *equal, int32_t *matched, int32_t *first)
{
    *equal = (int32_t)level->count_equal(left, right, num_perm);
    *matched = 0;
    *first = -1;
    for (size_t band = bands; band-- > 0;) {
        int differs = slots_differ(left + band * height, right + band * height, height);
        *matched += !differs;
        *first = differs ? *first : (int32_t)band;
    }
}

int bits_differ(const uint16_t *one, const uint16_t *other, size_t begin, size_t n)
{
    int is_equal = 1;
    for (size_t done = 0; done < n && is_equal; done += 64) {
        size_t many = n - done < 64 ? n - done : 64;
        is_equal = bits_at(one, begin + done, many) == bits_at(other, begin + done, many);
    }
    return !is_equal;
}

/* The same for rows whose slots are single bits. */
void compare_bits(const Level *level, const uint16_t *left, const uint16_t *right, size_t words,
                  size_t bands, size_t height, int32_t *equal, int32_t *matched, int32_t *first)
{
    *equal = (int32_t)(WORD_BITS * words - level->count_differing(left, right, words));
    *matched = 0;
    *first = -1;
    for (size_t band = bands; band-- > 0;)
        if (!bits_differ(left, right, band * height, height)) {
            *matched += 1;
            *first = (int32_t)band;
        }
}

int table_values(ValueTable *table, const uint64_t *values, size_t n)
{
    uint8_t sizes[MOST_CELLS] = {0};
    size_t n_cells = 2;
    table->shift = 63;
    for (; 2 * n_cells < n; n_cells *= 2)
        if (n_cells == MOST_CELLS)
            return 0;
        else
            table->shift--;
    memset(table->cells, 0, n_cells * CELL_VALUES * sizeof *table->cells);
    for (size_t place = 0; place < CELL_VALUES; place++)
        table->cells[place] = 1; /* 0 is of the first cell, and 1 is not */
    for (size_t i = 0; i < n; i++) {
        size_t cell = cell_of_value(values[i], table->shift);
        if (sizes[cell] == CELL_VALUES)
            return 0;
        table->cells[cell * CELL_VALUES + sizes[cell]++] = values[i];
    }
    return 1;
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
