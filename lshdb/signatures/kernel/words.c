/* Cut a text into words with one blank after each (shingling/shingles.py), and mark where they begin. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "kernel.h"
#include "packing.h"
#include "words.h"

/* clang-format off */
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
/* clang-format on */

enum { CLASS_NONE = 1, CLASS_WORD, CLASS_SINGLE };

/* Classes of the code points below 0x20000; filled once at import, then only read. */
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
        classes[point] = point == '_' || Py_UNICODE_ISALNUM(point) ? CLASS_WORD : CLASS_NONE;
    for (size_t i = 0; i < sizeof spaceless_ranges / sizeof *spaceless_ranges; i++)
        for (uint32_t point = spaceless_ranges[i][0];
             point <= spaceless_ranges[i][1] && point < sizeof classes; point++)
            classes[point] = CLASS_SINGLE;
}

/* The code point of a character of `width` bytes, 2 to 4. */
static inline uint32_t point_of(const uint8_t *bytes, size_t width)
{
    return width == 2   ? (bytes[0] & 0x1Fu) << 6 | (bytes[1] & 0x3Fu)
           : width == 3 ? (bytes[0] & 0x0Fu) << 12 | (bytes[1] & 0x3Fu) << 6 | (bytes[2] & 0x3Fu)
                        : (bytes[0] & 0x07u) << 18 | (bytes[1] & 0x3Fu) << 12
                              | (bytes[2] & 0x3Fu) << 6 | (bytes[3] & 0x3Fu);
}

/* Take characters until `end` is reached or passed. ASCII is handled without a branch on the byte. A word
   takes at most one byte of `out` per byte of text, and a single character takes a blank more than its 3 or
   4 bytes, so 2 * length + 1 bytes hold everything. (The place is kept in variables: for all that C knows,
   writing a byte might change it.) */
static inline void take_words(Place *place, uint8_t *out, const uint8_t *text, size_t end)
{
    size_t i = place->read, written = place->written, inside = place->inside;
    while (i < end) {
        uint8_t byte = text[i];
        if (byte < 0x80) {
            size_t word = classes[byte] == CLASS_WORD;
            out[written] = word ? byte : ' ';
            written += word | inside;
            inside = word;
            i++;
            continue;
        }
        size_t width = byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
        uint32_t point = point_of(text + i, width);
        size_t class = point < sizeof classes ? classes[point] : (size_t)classify(point);
        out[written] = ' ';
        written += class != CLASS_WORD && inside;
        for (size_t j = 0; j < width; j++)
            out[written + j] = text[i + j];
        written += class == CLASS_NONE ? 0 : width;
        out[written] = ' ';
        written += class == CLASS_SINGLE;
        inside = class == CLASS_WORD;
        i += width;
    }
    *place = (Place){i, written, inside, 0};
}

static size_t end_words(Place *place, uint8_t *out)
{
    if (place->inside)
        out[place->written++] = ' ';
    return place->written;
}

size_t split_words_plain(uint8_t *out, const uint8_t *text, size_t length)
{
    Place place = {0};
    take_words(&place, out, text, length);
    return end_words(&place, out);
}

/* starts[i] is the start of token i; each token ends in a separator, and starts[n] is after the last one.
   Returns n. Up to 8 more numbers are written. */
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

#ifdef LSHDB_X86

AVX2 static inline __m256i words_of(__m256i bytes)
{
    __m256i letters = between(_mm256_or_si256(bytes, _mm256_set1_epi8(0x20)), 'a', 'z');
    __m256i others =
        _mm256_or_si256(between(bytes, '0', '9'), _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8('_')));
    return _mm256_or_si256(letters, others);
}

AVX2 size_t split_words_avx2(uint8_t *out, const uint8_t *text, size_t length)
{
    Place place = {0};
    while (place.read + 32 <= length) {
        __m256i bytes = _mm256_loadu_si256((const __m256i *)(text + place.read));
        uint32_t wide = (uint32_t)_mm256_movemask_epi8(bytes);
        if (wide) /* at least as far as the last character that is not ASCII */
            take_words(&place, out, text, place.read + 32 - (size_t)__builtin_clz(wide));
        else
            put(&place, out, bytes, words_of(bytes));
    }
    take_words(&place, out, text, length);
    return end_words(&place, out);
}

/* Reads up to 31 bytes past the end and writes up to 8 numbers too many; callers keep room for that. */
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
        /* Always eight at a time: there are rarely more, as few words are that short. */
        for (size_t done = 0; done < many; done += 8)
            for (size_t j = 0; j < 8; j++) {
                next[done + j] = i + (size_t)_tzcnt_u32(mask) + 1;
                mask &= mask - 1;
            }
        next += many;
    }
    return (size_t)(next - starts) - 1;
}

#endif
