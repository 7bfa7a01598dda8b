/* Normalise texts; see normalise.c. */

#ifndef LSHDB_NORMALISE_H
#define LSHDB_NORMALISE_H

#include <stddef.h>
#include <stdint.h>

#include "kernel.h"
#include "packing.h"

/* Code points, each with an entry in the table. */
#define TABLE_POINTS 0x110000

/* The most segments that the memo holds, in sets of four, and its size in words of 8 bytes: 1 MiB. */
#define MEMO_SETS 4096
#define MEMO_WORDS (MEMO_SETS * 4 * 8)

/* The longest segment that is normalised apart from its text. */
#define LONGEST_SEGMENT 1024

/* A text is left to Python when more of its segments are not in the memo: a miss takes 2 us. */
#define FEWEST_MISSES 64
#define POINTS_A_MISS 32

enum { NORMALISE_DONE, NORMALISE_FILL, NORMALISE_SEGMENT, NORMALISE_COMPLEX, NORMALISE_MEMORY };

/* The normalised UTF-8 of a text so far; the character whose part of the table must be filled, or the
   segment that must be normalised; the number of segments that the memo did not hold. */
typedef struct {
    const Level *level;
    uint8_t *bytes;
    size_t room;
    Place place;
    size_t unknown, start, end, misses;
} Normaliser;

/* Continue to the end of `points`, characters of `width` bytes each. Returns NORMALISE_FILL at a character
   whose part of the table must be filled first, NORMALISE_SEGMENT at a segment that must be normalised first,
   and NORMALISE_COMPLEX if the whole text must be normalised by Python. */
int normalise_points(Normaliser *work, const void *points, int width, size_t length, int fold,
                     const uint64_t *table, void *memo);

/* Append the result of the segment, with white space collapsed, and remember it; 0 without memory. */
int normalise_segment(Normaliser *work, const void *points, int width, size_t length, void *memo,
                      const uint8_t *bytes, size_t size);

size_t collapse_plain(uint8_t *out, const uint8_t *text, size_t length, int fold);
int take_ascii_plain(Place *place, uint8_t *out, const void *points, int width, size_t length,
                     int fold);

#ifdef LSHDB_X86
size_t collapse_avx2(uint8_t *out, const uint8_t *text, size_t length, int fold);
int take_ascii_avx2(Place *place, uint8_t *out, const void *points, int width, size_t length,
                    int fold);
#endif

#endif
