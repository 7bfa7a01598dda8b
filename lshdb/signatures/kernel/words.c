/* Text -> words with one blank after each (tokens.py), and ASCII text -> normalised text.

   Both drop most bytes that do not count and turn the first one after a run of those that do into a blank.
   With AVX2 that is done 32 bytes at a time: a mask says which bytes stay, and a table of shuffles
   closes the gaps, 8 bytes at a time. The plain version has no branch on the data either. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "kernel.h"
#include "words.h"

static const uint32_t spaceless_ranges[][2] = {
    {0x0E01, 0x0E3A}, {0x0E40, 0x0E4E}, {0x0E50, 0x0E59},
    {0x0E81, 0x0EBD}, {0x0EC0, 0x0ECE}, {0x0ED0, 0x0ED9}, {0x0EDC, 0x0EDF},
    {0x1000, 0x1049}, {0x1050, 0x109D},
    {0x1780, 0x17B3}, {0x17B6, 0x17D3}, {0x17D7, 0x17D7}, {0x17DC, 0x17DD},
    {0x17E0, 0x17E9}, {0x17F0, 0x17F9},
    {0x2E80, 0x2FD5},
    {0x3005, 0x3007}, {0x3021, 0x302D}, {0x3031, 0x3035}, {0x3038, 0x303C},
    {0x3041, 0x3096}, {0x3099, 0x309A}, {0x309D, 0x309F},
    {0x30A1, 0x30FA}, {0x30FC, 0x30FF}, {0x31F0, 0x31FF},
    {0x3400, 0x4DBF}, {0x4E00, 0x9FFF},
    {0xA9E0, 0xA9FE}, {0xAA60, 0xAA76}, {0xAA7A, 0xAA7F},
    {0xF900, 0xFAFF}, {0xFF66, 0xFF9F}, {0x1AFF0, 0x1B16F}, {0x20000, 0x3FFFF},
};

enum { CLASS_NONE = 1, CLASS_WORD, CLASS_SINGLE };

/* Classes of the code points below 0x20000, filled once at import, then only read. */
static uint8_t classes[0x20000];

static int is_spaceless(uint32_t point)
{
    size_t low = 0, high = sizeof spaceless_ranges / sizeof *spaceless_ranges;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (point > spaceless_ranges[middle][1])
            low = middle + 1;
        else
            high = middle;
    }
    return low < sizeof spaceless_ranges / sizeof *spaceless_ranges
           && point >= spaceless_ranges[low][0];
}

static int classify(uint32_t point)
{
    if (is_spaceless(point))
        return CLASS_SINGLE;
    return point == '_' || Py_UNICODE_ISALNUM(point) ? CLASS_WORD : CLASS_NONE;
}

void fill_classes(void)
{
    for (uint32_t point = 0; point < sizeof classes; point++)
        classes[point] = (uint8_t)classify(point);
}

/* Where a pass over a text stands: bytes read and written, and whether the last one was of a word. */
typedef struct {
    size_t read, written, inside;
} Place;

/* One character of more than one byte. A word written whole takes at most a byte of out for a byte of
   text, and a single character a blank more than its 3 or 4 bytes: 2 * length + 1 bytes hold all. */
static inline void take_wide(Place *place, uint8_t *out, const uint8_t *text)
{
    const uint8_t *bytes = text + place->read;
    size_t width = *bytes < 0xE0 ? 2 : *bytes < 0xF0 ? 3 : 4;
    uint32_t point = width == 2   ? (bytes[0] & 0x1Fu) << 6 | (bytes[1] & 0x3Fu)
                     : width == 3 ? (bytes[0] & 0x0Fu) << 12 | (bytes[1] & 0x3Fu) << 6
                                        | (bytes[2] & 0x3Fu)
                                  : (bytes[0] & 0x07u) << 18 | (bytes[1] & 0x3Fu) << 12
                                        | (bytes[2] & 0x3Fu) << 6 | (bytes[3] & 0x3Fu);
    int class = point < sizeof classes ? classes[point] : classify(point);
    if (class != CLASS_WORD && place->inside) {
        out[place->written++] = ' ';
        place->inside = 0;
    }
    if (class != CLASS_NONE) {
        memcpy(out + place->written, bytes, width);
        place->written += width;
        place->inside = 1;
        if (class == CLASS_SINGLE) {
            out[place->written++] = ' ';
            place->inside = 0;
        }
    }
    place->read += width;
}

/* Characters until `end` is reached or passed. */
static inline void take_words(Place *place, uint8_t *out, const uint8_t *text, size_t end)
{
    while (place->read < end) {
        uint8_t byte = text[place->read];
        if (byte >= 0x80) {
            take_wide(place, out, text);
            continue;
        }
        size_t word = classes[byte] == CLASS_WORD;
        out[place->written] = word ? byte : ' ';
        place->written += word | place->inside;
        place->inside = word;
        place->read++;
    }
}

static size_t end_words(Place *place, uint8_t *out)
{
    if (place->inside)
        out[place->written++] = ' ';
    return place->written;
}

size_t split_words_plain(uint8_t *out, const uint8_t *text, size_t length)
{
    Place place = {0, 0, 0};
    take_words(&place, out, text, length);
    return end_words(&place, out);
}

/* starts[i] is where token i begins; each token ends in a separator, and starts[n] is behind the last
   one. Returns n. Up to 8 numbers more than that are written. */
size_t mark_starts_plain(size_t *starts, const uint8_t *text, size_t length, uint8_t separator)
{
    size_t found = 0;
    starts[0] = 0;
    for (size_t i = 0; i < length; i++) {
        starts[found + 1] = i + 1;
        found += text[i] == separator;
    }
    return found;
}

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
    Place place = {0, 0, 0};
    take_spaces(&place, out, text, length, fold ? 0x20 : 0);
    return place.written - (place.written > 0 && !place.inside);
}

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>

#define AVX2 __attribute__((target("avx2,popcnt,bmi")))

/* For each set of 8 bytes that stay, which ones they are. */
static uint8_t shuffles[256][8];

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

AVX2 static inline __m256i between(__m256i bytes, char low, char high)
{
    return _mm256_and_si256(_mm256_cmpgt_epi8(bytes, _mm256_set1_epi8((char)(low - 1))),
                            _mm256_cmpgt_epi8(_mm256_set1_epi8((char)(high + 1)), bytes));
}

AVX2 static inline __m256i words_of(__m256i bytes)
{
    __m256i letters = between(_mm256_or_si256(bytes, _mm256_set1_epi8(0x20)), 'a', 'z');
    __m256i others = _mm256_or_si256(between(bytes, '0', '9'),
                                     _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8('_')));
    return _mm256_or_si256(letters, others);
}

AVX2 static inline __m256i spaces_of(__m256i bytes)
{
    return _mm256_or_si256(_mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(' ')),
                           _mm256_or_si256(between(bytes, 9, 13), between(bytes, 0x1C, 0x1F)));
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

AVX2 size_t split_words_avx2(uint8_t *out, const uint8_t *text, size_t length)
{
    Place place = {0, 0, 0};
    while (place.read + 32 <= length) {
        __m256i bytes = _mm256_loadu_si256((const __m256i *)(text + place.read));
        uint32_t wide = (uint32_t)_mm256_movemask_epi8(bytes);
        if (wide) /* as far as the last character that is not ASCII, at least */
            take_words(&place, out, text, place.read + 32 - (size_t)__builtin_clz(wide));
        else
            put(&place, out, bytes, words_of(bytes));
    }
    take_words(&place, out, text, length);
    return end_words(&place, out);
}

AVX2 size_t collapse_avx2(uint8_t *out, const uint8_t *text, size_t length, int fold)
{
    Place place = {0, 0, 0};
    __m256i bit = _mm256_set1_epi8(fold ? 0x20 : 0);
    while (place.read + 32 <= length) {
        __m256i bytes = _mm256_loadu_si256((const __m256i *)(text + place.read));
        __m256i kept = _mm256_xor_si256(spaces_of(bytes), _mm256_set1_epi8(-1));
        bytes = _mm256_or_si256(bytes, _mm256_and_si256(between(bytes, 'A', 'Z'), bit));
        put(&place, out, bytes, kept);
    }
    take_spaces(&place, out, text, length, fold ? 0x20 : 0);
    return place.written - (place.written > 0 && !place.inside);
}

/* Reads up to 31 bytes past the end, and writes up to 8 numbers too many: callers keep room. */
AVX2 size_t mark_starts_avx2(size_t *starts, const uint8_t *text, size_t length, uint8_t separator)
{
    const __m256i wanted = _mm256_set1_epi8((char)separator);
    size_t *next = starts;
    *next++ = 0;
    for (size_t i = 0; i < length; i += 32) {
        __m256i bytes = _mm256_loadu_si256((const __m256i *)(text + i));
        uint32_t mask = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes, wanted));
        if (length - i < 32)
            mask &= (UINT32_C(1) << (length - i)) - 1;
        size_t many = (size_t)__builtin_popcount(mask);
        /* Eight at a time, whether there are as many or not: only few words are so short. */
        for (size_t done = 0; done < many; done += 8)
            for (size_t j = 0; j < 8; j++) {
                next[done + j] = i + (size_t)_tzcnt_u32(mask) + 1;
                mask &= mask - 1;
            }
        next += many;
    }
    return (size_t)(next - starts) - 1;
}

#else

void fill_shuffles(void) {}

#endif
