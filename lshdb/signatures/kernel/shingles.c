/* Tokens -> the distinct hashes of a text's shingles (shingles.py).

   A shingle of k tokens is one range of the text that words.c has written, hashed in place. */

#include <stdlib.h>

#include "hashing.h"
#include "kernel.h"

void release(Workspace *work)
{
    free(work->text);
    free(work->starts);
    free(work->hashes);
    free(work->table);
    free(work->counts);
    free(work->slots);
}

/* At least `needed` elements of `width` bytes at *array, whose contents may be lost; 0 or -1. */
static int reserve(void *array, size_t *size, size_t needed, size_t width)
{
    void **pointer = array;
    if (*size >= needed)
        return 0;
    free(*pointer);
    *size = 0;
    needed += needed / 4;
    *pointer = malloc(needed * width);
    if (!*pointer)
        return -1;
    *size = needed;
    return 0;
}

/* Places of the table for a text of `count` shingles: few meet in a table a quarter full, but a large
   one should stay in the cache. */
static size_t table_places(size_t count)
{
    size_t places = 64, wanted = count < 2048 ? 4 * count : 2 * count;
    while (places < wanted)
        places *= 2;
    return places;
}

/* The pieces between separators that are not empty, each with one separator after it. */
static size_t split_pieces(uint8_t *out, const uint8_t *text, size_t length, uint8_t separator)
{
    size_t written = 0;
    const uint8_t *end = text + length;
    while (text < end) {
        const uint8_t *stop = memchr(text, separator, (size_t)(end - text));
        size_t piece = (size_t)((stop ? stop : end) - text);
        if (piece) {
            memcpy(out + written, text, piece);
            written += piece;
            out[written++] = separator;
        }
        text += piece + 1;
    }
    return written;
}

static size_t mark_characters(size_t *starts, const uint8_t *text, size_t length)
{
    size_t found = 0;
    for (size_t i = 0; i < length; i++) {
        starts[found] = i;
        found += (text[i] & 0xC0) != 0x80;
    }
    starts[found] = length;
    return found;
}

int reserve_tokens(Workspace *work, size_t tokens, size_t bytes)
{
    return reserve(&work->text, &work->text_size, bytes + 2 * PADDING, 1)
           || reserve(&work->starts, &work->starts_size, tokens + 16, sizeof *work->starts);
}

/* Room for `count` hashes, and the 8 more that sketch() may write. */
int reserve_hashes(Workspace *work, size_t count)
{
    return reserve(&work->hashes, &work->hashes_size, count + 8, sizeof *work->hashes);
}

/* Write the tokens of a text and mark where they begin; their number, or -1 without memory. */
static ptrdiff_t split(Workspace *work, const uint8_t *text, size_t length, int unit)
{
    if (reserve_tokens(work, length, 2 * length))
        return -1;
    size_t written, found;
    uint8_t separator = unit == UNIT_LINE ? '\n' : ' ';
    switch (unit) {
    case UNIT_WORD:
        written = work->level->split_words(work->text, text, length);
        break;
    case UNIT_LINE:
    case UNIT_TOKEN:
        written = split_pieces(work->text, text, length, separator);
        break;
    default:
        memcpy(work->text, text, length);
        written = length;
    }
    memset(work->text + written, 0, PADDING);
    if (unit == UNIT_CHAR) {
        found = mark_characters(work->starts, work->text, written);
    } else if (unit == UNIT_BYTE) {
        for (found = 0; found <= length; found++)
            work->starts[found] = found;
        found = length;
    } else {
        found = work->level->mark_starts(work->starts, work->text, written, separator);
    }
    return (ptrdiff_t)found;
}

/* Place of a hash in the table, or the empty place where it belongs. The hash itself is as good as
   random. Zero, which marks an empty place, cannot be stored: the caller keeps it apart. */
static inline size_t find(const uint64_t *table, size_t places, uint64_t hash)
{
    size_t place = hash & (places - 1);
    while (table[place] && table[place] != hash)
        place = (place + 1) & (places - 1);
    return place;
}

ptrdiff_t shingle(Workspace *work, const uint8_t *text, size_t length, int unit, size_t k, int bag)
{
    ptrdiff_t tokens = split(work, text, length, unit);
    size_t gap = unit != UNIT_CHAR && unit != UNIT_BYTE;
    return tokens <= 0 ? tokens : shingle_tokens(work, (size_t)tokens, gap, k, bag);
}

/* Empty the table. */
static void clear_table(Workspace *work, size_t places)
{
    memset(work->table, 0, places * sizeof *work->table);
}

/* Keep each hash once, in order of its first place; their number. */
static size_t keep_distinct(Workspace *work, size_t places, size_t count)
{
    uint64_t *hashes = work->hashes, *table = work->table;
    size_t found = 0, zeros = 0;
    clear_table(work, places);
    for (size_t i = 0; i < count; i++) {
        uint64_t hash = hashes[i];
        size_t place = find(table, places, hash);
        size_t fresh = hash ? !table[place] : !zeros++;
        table[place] = hash; /* zero is put where zero was */
        hashes[found] = hash;
        found += fresh;
    }
    return found;
}

/* Hash the i-th repetition of a shingle again, with seed i, so that it is an element of its own. */
static void hash_repetitions(Workspace *work, size_t places, size_t count, size_t width, size_t gap)
{
    uint64_t *table = work->table;
    const size_t *starts = work->starts;
    uint32_t zeros = 0;
    clear_table(work, places);
    for (size_t i = 0; i < count; i++) {
        uint64_t hash = work->hashes[i];
        size_t place = find(table, places, hash);
        uint32_t *counter = hash ? &work->counts[place] : &zeros;
        if (hash && !table[place]) {
            table[place] = hash;
            *counter = 0;
        }
        uint32_t repetition = (*counter)++;
        if (repetition)
            work->hashes[i] = murmur3(work->text + starts[i],
                                      starts[i + width] - gap - starts[i], repetition);
    }
}

/* `gap` is the length of the separator behind a shingle, which is not part of it. */
ptrdiff_t shingle_tokens(Workspace *work, size_t tokens, size_t gap, size_t k, int bag)
{
    size_t width = tokens > k ? k : tokens, count = tokens - width + 1;
    size_t places = table_places(count);
    if (reserve_hashes(work, count)
        || reserve(&work->table, &work->table_size, places, sizeof *work->table)
        || (bag && reserve(&work->counts, &work->counts_size, places, sizeof *work->counts)))
        return -1;
    /* All hashes first: they do not wait for each other, and looking up would make them. */
    work->level->hash_shingles(work->hashes, work->text, work->starts, count, width, gap);
    if (bag)
        hash_repetitions(work, places, count, width, gap);
    return (ptrdiff_t)keep_distinct(work, places, count);
}

ptrdiff_t count_shared(Workspace *work, const uint64_t *left, size_t n_left, const uint64_t *right,
                       size_t n_right)
{
    size_t places = table_places(n_left), common = 0;
    if (reserve(&work->table, &work->table_size, places, sizeof *work->table))
        return -1;
    clear_table(work, places);
    int zero = 0;
    for (size_t i = 0; i < n_left; i++) {
        zero |= !left[i];
        work->table[find(work->table, places, left[i])] = left[i];
    }
    for (size_t i = 0; i < n_right; i++)
        common += right[i] ? work->table[find(work->table, places, right[i])] != 0 : (size_t)zero;
    return (ptrdiff_t)common;
}
