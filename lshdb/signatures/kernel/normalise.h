/* Text -> normalised text; see normalise.c. */

#ifndef LSHDB_NORMALISE_H
#define LSHDB_NORMALISE_H

#include <stddef.h>
#include <stdint.h>

#include "kernel.h"
#include "packing.h"

/* Code points that have an entry in the table. */
#define TABLE_POINTS 0x20000

enum { NORMALISE_DONE, NORMALISE_FILL, NORMALISE_COMPLEX, NORMALISE_MEMORY };

/* The normalised UTF-8 of a text so far. */
typedef struct {
    const Level *level;
    uint8_t *bytes;
    size_t room;
    Place place;
} Normaliser;

/* Normalise from where the work stands to the end of `points`, characters of so many bytes each. NORMALISE_FILL
   stops at a character whose part of the table is to be filled first, NORMALISE_COMPLEX at one that needs its
   neighbours. */
int normalise_points(Normaliser *work, const void *points, int width, size_t length, int fold,
                     const uint64_t *table);

size_t collapse_plain(uint8_t *out, const uint8_t *text, size_t length, int fold);
int take_ascii_plain(Place *place, uint8_t *out, const void *points, int width, size_t length,
                     int fold);

#ifdef LSHDB_X86
size_t collapse_avx2(uint8_t *out, const uint8_t *text, size_t length, int fold);
int take_ascii_avx2(Place *place, uint8_t *out, const void *points, int width, size_t length,
                    int fold);
#endif

#endif
