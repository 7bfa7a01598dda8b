/* Drop bytes from a text: those that do not count, except the first one after a run of those that do,
   which becomes a blank. words.c cuts words out of a text in this way, and normalise.c collapses white
   space.

   AVX2 handles 32 bytes at a time: a mask marks the bytes that stay, and a table of shuffles closes the
   gaps, 8 bytes at a time. The plain versions do not branch on the data either. */

#ifndef LSHDB_PACKING_H
#define LSHDB_PACKING_H

#include <stddef.h>
#include <stdint.h>

#include "machine.h"

/* The state of a pass over a text: bytes (characters) read, bytes written, whether the last one belonged
   to a word, the combining class of the last one, and how many were read up to the end of the last single
   character that is a word, with its marks. */
typedef struct {
    size_t read, written, inside;
    uint64_t class;
    size_t single;
} Place;

#ifdef LSHDB_X86

#include <immintrin.h>

#define AVX2 __attribute__((target("avx2,popcnt,bmi")))

/* For each mask of 8 bytes, the places of the bytes that stay; filled at import. */
extern uint8_t shuffles[256][8];

AVX2 static inline __m256i between(__m256i bytes, char low, char high)
{
    return _mm256_and_si256(_mm256_cmpgt_epi8(bytes, _mm256_set1_epi8((char)(low - 1))),
                            _mm256_cmpgt_epi8(_mm256_set1_epi8((char)(high + 1)), bytes));
}

/* Write the 32 bytes that `kept` marks, and one blank after each run of them. */
AVX2 static inline void put(Place *place, uint8_t *out, __m256i bytes, __m256i kept)
{
    uint32_t word = (uint32_t)_mm256_movemask_epi8(kept);
    uint32_t stay = word | word << 1 | (uint32_t)place->inside;
    bytes = _mm256_blendv_epi8(_mm256_set1_epi8(' '), bytes, kept);
    place->inside = word >> 31;
    place->read += 32;
    if (stay == UINT32_MAX) {
        _mm256_storeu_si256((__m256i *)(out + place->written), bytes);
        place->written += 32;
        return;
    }
    __m128i halves[2] = {_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1)};
    for (int part = 0; part < 4; part++) {
        uint32_t mask = stay >> (8 * part) & 0xFF;
        __m128i eight = part & 1 ? _mm_srli_si128(halves[part / 2], 8) : halves[part / 2];
        __m128i order = _mm_loadl_epi64((const __m128i *)shuffles[mask]);
        _mm_storel_epi64((__m128i *)(out + place->written), _mm_shuffle_epi8(eight, order));
        place->written += (size_t)__builtin_popcount(mask);
    }
}

#endif

#endif
