/* Text -> normalised text (normalise.py), for texts whose characters normalise alone.

   NFKC and case folding change most characters without regard to their neighbours: what becomes of each is
   read from a table that Python fills, 256 code points at a time, from its own Unicode data
   (folding.py). A text with any other character (a combining mark, say) is left to Python. */

#include <stdlib.h>

#include "hashing.h"
#include "kernel.h"
#include "normalise.h"
#include "packing.h"

uint8_t shuffles[256][8];

void fill_shuffles(void)
{
    for (int mask = 0; mask < 256; mask++) {
        int kept = 0;
        for (int bit = 0; bit < 8; bit++)
            if (mask >> bit & 1)
                shuffles[mask][kept++] = (uint8_t)bit;
        while (kept < 8)
            shuffles[mask][kept++] = 0x80;
    }
}

/* An entry of the table: a length in the low byte, and so many bytes of UTF-8 above it. That of a combining
   mark has ENTRY_MARK added to its length, of at most 4, and its combining class in the top byte. */
enum { ENTRY_UNKNOWN = 0, LONGEST_PIECE = 7, ENTRY_SPACE = 8, ENTRY_COMPLEX = 9, ENTRY_MARK = 16 };

/* Characters between two looks at the room that is left. */
#define STRIDE 32

/* What str.split() takes for white space, in ASCII. */
static inline int is_space(uint8_t byte)
{
    return byte == ' ' || (uint8_t)(byte - 9) < 5 || (uint8_t)(byte - 0x1C) < 4;
}

static inline void take_spaces(Place *place, uint8_t *out, const uint8_t *text, size_t end,
                               uint8_t fold)
{
    for (; place->read < end; place->read++) {
        uint8_t byte = text[place->read];
        size_t kept = !is_space(byte);
        uint8_t folded = byte | (((uint8_t)(byte - 'A') < 26) ? fold : 0);
        out[place->written] = kept ? folded : ' ';
        place->written += kept | place->inside;
        place->inside = kept;
    }
}

/* White space collapsed and none at the ends; capitals made small if `fold`. */
size_t collapse_plain(uint8_t *out, const uint8_t *text, size_t length, int fold)
{
    Place place = {0};
    take_spaces(&place, out, text, length, fold ? 0x20 : 0);
    return place.written - (place.written > 0 && !place.inside);
}

#ifdef LSHDB_X86

AVX2 static inline __m256i spaces_of(__m256i bytes)
{
    return _mm256_or_si256(_mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(' ')),
                           _mm256_or_si256(between(bytes, 9, 13), between(bytes, 0x1C, 0x1F)));
}

/* Fold and pack 32 ASCII bytes. */
AVX2 static inline void put_ascii(Place *place, uint8_t *out, __m256i bytes, int fold)
{
    __m256i kept = _mm256_xor_si256(spaces_of(bytes), _mm256_set1_epi8(-1));
    __m256i bit = _mm256_set1_epi8(fold ? 0x20 : 0);
    bytes = _mm256_or_si256(bytes, _mm256_and_si256(between(bytes, 'A', 'Z'), bit));
    put(place, out, bytes, kept);
}

AVX2 size_t collapse_avx2(uint8_t *out, const uint8_t *text, size_t length, int fold)
{
    Place place = {0};
    while (place.read + 32 <= length)
        put_ascii(&place, out, _mm256_loadu_si256((const __m256i *)(text + place.read)), fold);
    take_spaces(&place, out, text, length, fold ? 0x20 : 0);
    return place.written - (place.written > 0 && !place.inside);
}

/* Take the next 32 characters, of 1 or 2 bytes each, if all are ASCII; whether they were. */
AVX2 int take_ascii_avx2(Place *place, uint8_t *out, const void *points, int width, size_t length,
                         int fold)
{
    if (width == 4 || place->read + 32 > length)
        return 0;
    const __m256i *next = (const __m256i *)((const uint8_t *)points + place->read * (size_t)width);
    __m256i bytes = _mm256_loadu_si256(next);
    if (width == 1) {
        if (_mm256_movemask_epi8(bytes))
            return 0;
    } else {
        __m256i second = _mm256_loadu_si256(next + 1), wide = _mm256_set1_epi16((short)0xFF80);
        if (!_mm256_testz_si256(_mm256_or_si256(bytes, second), wide))
            return 0;
        bytes = _mm256_permute4x64_epi64(_mm256_packus_epi16(bytes, second), 0xD8);
    }
    put_ascii(place, out, bytes, fold);
    return 1;
}

#endif

int take_ascii_plain(Place *place, uint8_t *out, const void *points, int width, size_t length,
                     int fold)
{
    (void)place, (void)out, (void)points, (void)width, (void)length, (void)fold;
    return 0;
}

static inline uint32_t point_at(const void *points, int width, size_t i)
{
    return width == 1   ? ((const uint8_t *)points)[i]
           : width == 2 ? ((const uint16_t *)points)[i]
                        : ((const uint32_t *)points)[i];
}

/* Take characters to `end` by the table. DONE, or why it stopped at place->read. */
static inline int take_points(Place *place, uint8_t *out, const void *points, int width, size_t end,
                              const uint64_t *table)
{
    size_t i = place->read, written = place->written, inside = place->inside;
    uint64_t class = place->class;
    int stopped = NORMALISE_DONE;
    for (; i < end; i++) {
        uint32_t point = point_at(points, width, i);
        uint64_t entry = point < TABLE_POINTS ? table[point] : ENTRY_COMPLEX;
        size_t length = entry & 0xFF;
        if (length - 1 >= ENTRY_SPACE) {
            /* A mark in order: its class is not below that of a mark before it. */
            if (length - ENTRY_MARK - 1 < LONGEST_PIECE && entry >> 56 >= class) {
                store64(out + written, entry >> 8);
                written += length - ENTRY_MARK;
                class = entry >> 56;
                inside = 1;
                continue;
            }
            stopped = length == ENTRY_UNKNOWN ? NORMALISE_FILL : NORMALISE_COMPLEX;
            break;
        }
        class = 0;
        size_t space = length == ENTRY_SPACE;
        store64(out + written, space ? ' ' : entry >> 8);
        written += space ? inside : length;
        inside = !space;
    }
    *place = (Place){i, written, inside, class};
    return stopped;
}

int normalise_points(Normaliser *work, const void *points, int width, size_t length, int fold,
                     const uint64_t *table)
{
    while (work->place.read < length) {
        size_t needed = work->place.written + STRIDE * LONGEST_PIECE + PADDING;
        if (work->room < needed) {
            size_t room = needed + length + needed / 2;
            uint8_t *bytes = realloc(work->bytes, room);
            if (!bytes)
                return NORMALISE_MEMORY;
            work->bytes = bytes;
            work->room = room;
        }
        Place *place = &work->place;
        if (work->level->take_ascii(place, work->bytes, points, width, length, fold)) {
            place->class = 0;
            continue;
        }
        size_t end = length - place->read < STRIDE ? length : place->read + STRIDE;
        int stopped = width == 1   ? take_points(place, work->bytes, points, 1, end, table)
                      : width == 2 ? take_points(place, work->bytes, points, 2, end, table)
                                   : take_points(place, work->bytes, points, 4, end, table);
        if (stopped != NORMALISE_DONE)
            return stopped;
    }
    work->place.written -= work->place.written > 0 && !work->place.inside;
    return NORMALISE_DONE;
}
