/* Text -> normalised text; see normalise.c. */

#ifndef LSHDB_NORMALISE_H
#define LSHDB_NORMALISE_H

#include <stddef.h>
#include <stdint.h>

#include "kernel.h"
#include "packing.h"

/* Code points, each with an entry in the table. */
#define TABLE_POINTS 0x110000

/* Segments that the memo holds at most, in sets of four, and its size in words of 8 bytes: 1 MiB. */
#define MEMO_SETS 4096
#define MEMO_WORDS (MEMO_SETS * 4 * 8)

/* The longest segment that is normalised apart from its text. */
#define LONGEST_SEGMENT 1024

/* A text is left to Python when more of its segments are not in the memo: a miss takes 2 us. */
#define FEWEST_MISSES 64
#define POINTS_A_MISS 32

enum { NORMALISE_DONE, NORMALISE_FILL, NORMALISE_SEGMENT, NORMALISE_COMPLEX, NORMALISE_MEMORY };

/* The normalised UTF-8 of a text so far; where the character is whose part of the table is to be filled, or
   the segment that is to be normalised; how many segments were. */
typedef struct {
    const Level *level;
    uint8_t *bytes;
    size_t room;
    Place place;
    size_t unknown, start, end, misses;
} Normaliser;

/* Normalise from where the work stands to the end of `points`, characters of so many bytes each. NORMALISE_FILL
   stops at a character whose part of the table is to be filled first, NORMALISE_SEGMENT at a segment that
   is to be normalised first, NORMALISE_COMPLEX where the whole text is to be normalised otherwise. */
int normalise_points(Normaliser *work, const void *points, int width, size_t length, int fold,
                     const uint64_t *table, void *memo);

/* Take what became of the segment, white space collapsed, and remember it; 0 if there is no memory. */
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
