/* All rows of a block against some queries, and the best of one query's counts (signatures/scan.py). */

#include "kernel.h"

#include <stdlib.h>
#include <string.h>

/* Bytes of rows that are compared with one query after another: they stay in the first cache. */
enum { TILE_BYTES = 1 << 14, COUNTS = 1 << 16 };

int count_in_rows(const Level *level, const uint16_t *queries, size_t n_queries,
                  const uint16_t *rows, size_t n_rows, size_t words, int slot_bits,
                  uint16_t *counts, size_t width, const Listener *listener)
{
    size_t tile = TILE_BYTES / (WORD_BYTES * words) ? TILE_BYTES / (WORD_BYTES * words) : 1,
           unheard = 0;
    void (*count)(const uint16_t *, const uint16_t *, size_t, size_t, uint16_t *) =
        slot_bits == 1 ? level->count_bits_of : level->count_slots_of;
    for (size_t first = 0; first < n_rows; first += tile) {
        size_t many = n_rows - first < tile ? n_rows - first : tile;
        for (size_t query = 0; query < n_queries; query++) {
            count(queries + query * words, rows + first * words, many, words,
                  counts + query * width + first);
            unheard += many * words;
            if (unheard < SCANNED_AT_ONCE)
                continue;
            unheard = 0;
            if (is_stopped(listener))
                return WORK_STOPPED;
        }
    }
    return WORK_DONE;
}

/* A sort by counting: how many rows have each count, then where the first of them goes. Another thread may
   change the counts between the two passes, so each place is compared with the room. */
int rank_counts(const uint16_t *counts, size_t n, uint16_t least, int64_t *best, size_t room,
                size_t *found)
{
    size_t *places = calloc(COUNTS, sizeof *places), total = 0;
    if (!places)
        return WORK_MEMORY;
    for (size_t i = 0; i < n; i++)
        places[counts[i]]++;
    size_t lowest = COUNTS; /* the lowest count that has a place */
    for (size_t count = COUNTS; count-- > least;) {
        size_t many = places[count];
        places[count] = total;
        if (many && total < room)
            lowest = count;
        total += many;
    }
    for (size_t i = 0; i < n; i++) {
        size_t count = ((const volatile uint16_t *)counts)[i], place = places[count];
        if (count >= lowest && place < room) {
            best[place] = (int64_t)i;
            places[count] = place + 1;
        }
    }
    free(places);
    *found = total;
    return WORK_DONE;
}
