/* Normalise texts (shingling/normalise.py).

   NFKC and case folding change most characters independently of their neighbours. Their results come from a
   table that Python fills, 256 code points at a time, from its own Unicode data. Any other
   character (such as a combining mark) is normalised together with its neighbours: from the last place
   before it where the text may be cut to the next such place after it. Python normalises such a segment when
   it first occurs, and a memo of fixed size keeps the result. A text with very long segments, or with very
   many that the memo does not hold, is left to Python as a whole. */

#include <stdlib.h>
#include <string.h>

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

/* An entry of the table: a length in the low byte, and that many bytes of UTF-8 above it. A combining mark
   has ENTRY_MARK added to its length, of at most 4, and its combining class in the top byte. A text may be
   cut before an ENTRY_APART, as before a letter or white space, but its result is not in the table. An
   ENTRY_IGNORED is left out, as if it were a mark of no bytes: what is before it meets what follows. */
enum {
    ENTRY_UNKNOWN = 0,
    LONGEST_PIECE = 7,
    ENTRY_SPACE = 8,
    ENTRY_COMPLEX = 9,
    ENTRY_APART = 10,
    ENTRY_MARK = 16,
    ENTRY_IGNORED = ENTRY_MARK,
};

/* Characters between two checks of the remaining room. */
#define STRIDE 32

/* The white space of str.split(), in ASCII. */
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

/* Collapse white space, strip the ends, and turn capitals into small letters if `fold`. */
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

/* Take the next 32 characters, of 1 or 2 bytes each, if all are ASCII; return whether they were. */
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

/* Take characters up to `end` by the table. Returns DONE, or why it stopped at place->read. */
static inline int take_points(Place *place, uint8_t *out, const void *points, int width, size_t end,
                              const uint64_t *table)
{
    size_t i = place->read, written = place->written, inside = place->inside;
    uint64_t class = place->class;
    int stopped = NORMALISE_DONE;
    for (; i < end; i++) {
        uint32_t point = point_at(points, width, i);
        uint64_t entry = table[point];
        size_t length = entry & 0xFF;
        if (length - 1 >= ENTRY_SPACE) {
            /* A mark in order: its class is not below that of the mark before it. */
            if (length - ENTRY_MARK - 1 < LONGEST_PIECE && entry >> 56 >= class) {
                store64(out + written, entry >> 8);
                written += length - ENTRY_MARK;
                class = entry >> 56;
                inside = 1;
                continue;
            }
            if (length == ENTRY_IGNORED)
                continue;
            stopped = length == ENTRY_UNKNOWN ? NORMALISE_FILL : NORMALISE_SEGMENT;
            break;
        }
        class = 0;
        size_t space = length == ENTRY_SPACE;
        store64(out + written, space ? ' ' : entry >> 8);
        written += space ? inside : length;
        inside = !space;
    }
    *place = (Place){i, written, inside, class, 0};
    return stopped;
}

/* The result of a segment: its characters, padded with zeros, and the normalised UTF-8. No segment is all
   zeros, as U+0000 normalises alone. No length in the memo's memory is trusted, whatever it holds. */
enum { MEMO_POINTS = 6, MEMO_BYTES = 39, MEMO_WAYS = 4 };

typedef struct {
    uint32_t points[MEMO_POINTS];
    uint8_t length, bytes[MEMO_BYTES];
} Remembered;

_Static_assert(sizeof(Remembered) * MEMO_WAYS * MEMO_SETS == MEMO_WORDS * 8, "size of the memo");

/* The characters of the segment that stopped the work, as a key. */
static inline void key_of(uint32_t key[MEMO_POINTS], const Normaliser *work, const void *points,
                          int width)
{
    memset(key, 0, MEMO_POINTS * sizeof *key);
    for (size_t i = work->start; i < work->end; i++)
        key[i - work->start] = point_at(points, width, i);
}

static inline Remembered *ways_of(void *memo, const uint32_t key[MEMO_POINTS])
{
    uint64_t hash = 0;
    for (int i = 0; i < MEMO_POINTS; i++)
        hash = (hash ^ key[i]) * 0x9E3779B97F4A7C15U, hash ^= hash >> 29;
    return (Remembered *)memo + (hash & (MEMO_SETS - 1)) * MEMO_WAYS;
}

static inline int make_room(Normaliser *work, size_t more, size_t left)
{
    size_t needed = work->place.written + more + STRIDE * LONGEST_PIECE + PADDING;
    if (work->room >= needed)
        return 1;
    size_t room = needed + left + needed / 2;
    uint8_t *bytes = realloc(work->bytes, room);
    if (!bytes)
        return 0;
    work->bytes = bytes;
    work->room = room;
    return 1;
}

/* Append the normalised segment and continue after it. */
static inline void put_segment(Normaliser *work, const uint8_t *bytes, size_t length)
{
    Place *place = &work->place;
    size_t skipped = length && bytes[0] == ' ' && !place->inside;
    memcpy(work->bytes + place->written, bytes + skipped, length - skipped);
    place->written += length - skipped;
    if (length > skipped)
        place->inside = bytes[length - 1] != ' ';
    place->read = work->end;
}

int normalise_segment(Normaliser *work, const void *points, int width, size_t length, void *memo,
                      const uint8_t *bytes, size_t size)
{
    if (!make_room(work, size, length - work->end))
        return 0;
    if (work->end - work->start <= MEMO_POINTS && size <= MEMO_BYTES) {
        uint32_t key[MEMO_POINTS];
        key_of(key, work, points, width);
        Remembered *ways = ways_of(memo, key), *way = ways + work->misses % MEMO_WAYS;
        for (int i = MEMO_WAYS; i--;)
            if (!ways[i].length)
                way = ways + i;
        memcpy(way->points, key, sizeof key);
        memcpy(way->bytes, bytes, size);
        way->length = (uint8_t)size;
    }
    put_segment(work, bytes, size);
    return 1;
}

/* Find the segment around the current character, take back what was written of it, and write the memo's
   result for it. */
static inline int take_segment(Normaliser *work, const void *points, int width, size_t length,
                               const uint64_t *table, void *memo)
{
    Place *place = &work->place;
    size_t start = place->read, end = start + 1, back = 0;
    uint64_t entry = table[point_at(points, width, start)];
    while ((entry & 0xFF) != ENTRY_APART && start) {
        uint32_t point = point_at(points, width, start - 1);
        /* ASCII may not be in the table yet; each character becomes one byte. */
        entry = point >= 0x80 ? table[point] : is_space((uint8_t)point) ? ENTRY_SPACE : 1;
        size_t size = entry & 0xFF;
        if (size == ENTRY_SPACE)
            break;
        start--;
        back += size < ENTRY_MARK ? size : size - ENTRY_MARK;
        if (size < ENTRY_SPACE)
            break;
        if (size < ENTRY_MARK || place->read - start > LONGEST_SEGMENT)
            return NORMALISE_COMPLEX;
    }
    for (uint32_t point = point_at(points, width, place->read);;) {
        if (point - 0xD800 < 0x800 || end - start > LONGEST_SEGMENT)
            return NORMALISE_COMPLEX;
        if (end == length)
            break;
        point = point_at(points, width, end);
        size_t size = table[point] & 0xFF;
        if (size == ENTRY_UNKNOWN) {
            work->unknown = end;
            return NORMALISE_FILL;
        }
        if (size <= ENTRY_SPACE || size == ENTRY_APART)
            break;
        end++;
    }
    if (back > place->written) /* the table has changed since */
        return NORMALISE_COMPLEX;
    work->start = start;
    work->end = end;
    Remembered *found = NULL;
    if (end - start <= MEMO_POINTS) {
        uint32_t key[MEMO_POINTS];
        key_of(key, work, points, width);
        Remembered *way = ways_of(memo, key);
        for (int i = 0; i < MEMO_WAYS && !found; i++, way++)
            if (!memcmp(way->points, key, sizeof key) && way->length - 1U < MEMO_BYTES)
                found = way;
    }
    if (!found && ++work->misses > FEWEST_MISSES + length / POINTS_A_MISS)
        return NORMALISE_COMPLEX;
    if (start < place->read) {
        place->written -= back;
        place->read = start;
    }
    if (!found)
        return NORMALISE_SEGMENT;
    put_segment(work, found->bytes, found->length);
    return NORMALISE_DONE;
}

int normalise_points(Normaliser *work, const void *points, int width, size_t length, int fold,
                     const uint64_t *table, void *memo)
{
    while (work->place.read < length) {
        if (!make_room(work, MEMO_BYTES, length))
            return NORMALISE_MEMORY;
        Place *place = &work->place;
        if (work->level->take_ascii(place, work->bytes, points, width, length, fold)) {
            place->class = 0;
            continue;
        }
        size_t end = length - place->read < STRIDE ? length : place->read + STRIDE;
        int stopped = width == 1   ? take_points(place, work->bytes, points, 1, end, table)
                      : width == 2 ? take_points(place, work->bytes, points, 2, end, table)
                                   : take_points(place, work->bytes, points, 4, end, table);
        work->unknown = place->read;
        if (stopped == NORMALISE_SEGMENT)
            stopped = take_segment(work, points, width, length, table, memo);
        if (stopped != NORMALISE_DONE)
            return stopped;
    }
    work->place.written -= work->place.written > 0 && !work->place.inside;
    return NORMALISE_DONE;
}
