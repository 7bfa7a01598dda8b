/* Cut a text into words with one blank after each (shingling/shingles.py), and mark where they begin. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "kernel.h"
#include "packing.h"
#include "words.h"

/* The ranges of shingling/words.py, which says what they are for. */
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
static const uint32_t mark_ranges[][2] = {
    {0x0300, 0x036F}, {0x0483, 0x0489}, {0x0591, 0x05BD}, {0x05BF, 0x05BF}, {0x05C1, 0x05C2},
    {0x05C4, 0x05C5}, {0x05C7, 0x05C9}, {0x0610, 0x061A}, {0x064B, 0x065F}, {0x0670, 0x0670},
    {0x06D6, 0x06DC}, {0x06DF, 0x06E4}, {0x06E7, 0x06E8}, {0x06EA, 0x06ED}, {0x0711, 0x0711},
    {0x0730, 0x074A}, {0x07A6, 0x07B0}, {0x07EB, 0x07F3}, {0x07FD, 0x07FD}, {0x0816, 0x0819},
    {0x081B, 0x0823}, {0x0825, 0x0827}, {0x0829, 0x082D}, {0x0859, 0x085B}, {0x0897, 0x089F},
    {0x08CA, 0x08E1}, {0x08E3, 0x0903}, {0x093A, 0x093C}, {0x093E, 0x094F}, {0x0951, 0x0957},
    {0x0962, 0x0963}, {0x0981, 0x0983}, {0x09BC, 0x09BC}, {0x09BE, 0x09C4}, {0x09C7, 0x09C8},
    {0x09CB, 0x09CD}, {0x09D7, 0x09D7}, {0x09E2, 0x09E3}, {0x09FE, 0x09FE}, {0x0A01, 0x0A03},
    {0x0A3C, 0x0A3C}, {0x0A3E, 0x0A42}, {0x0A47, 0x0A48}, {0x0A4B, 0x0A4D}, {0x0A51, 0x0A51},
    {0x0A70, 0x0A71}, {0x0A75, 0x0A75}, {0x0A81, 0x0A83}, {0x0ABC, 0x0ABC}, {0x0ABE, 0x0AC5},
    {0x0AC7, 0x0AC9}, {0x0ACB, 0x0ACD}, {0x0AE2, 0x0AE3}, {0x0AFA, 0x0AFF}, {0x0B01, 0x0B03},
    {0x0B3C, 0x0B3C}, {0x0B3E, 0x0B44}, {0x0B47, 0x0B48}, {0x0B4B, 0x0B4D}, {0x0B53, 0x0B57},
    {0x0B62, 0x0B63}, {0x0B82, 0x0B82}, {0x0BBE, 0x0BC2}, {0x0BC6, 0x0BC8}, {0x0BCA, 0x0BCD},
    {0x0BD7, 0x0BD7}, {0x0C00, 0x0C04}, {0x0C3C, 0x0C3C}, {0x0C3E, 0x0C44}, {0x0C46, 0x0C48},
    {0x0C4A, 0x0C4D}, {0x0C55, 0x0C56}, {0x0C62, 0x0C63}, {0x0C81, 0x0C83}, {0x0CBC, 0x0CBC},
    {0x0CBE, 0x0CC4}, {0x0CC6, 0x0CC8}, {0x0CCA, 0x0CCD}, {0x0CD5, 0x0CD6}, {0x0CE2, 0x0CE3},
    {0x0CF3, 0x0CF3}, {0x0D00, 0x0D03}, {0x0D3B, 0x0D3C}, {0x0D3E, 0x0D44}, {0x0D46, 0x0D48},
    {0x0D4A, 0x0D4D}, {0x0D57, 0x0D57}, {0x0D62, 0x0D63}, {0x0D81, 0x0D83}, {0x0DCA, 0x0DCA},
    {0x0DCF, 0x0DD4}, {0x0DD6, 0x0DD6}, {0x0DD8, 0x0DDF}, {0x0DF2, 0x0DF3}, {0x0F18, 0x0F19},
    {0x0F35, 0x0F35}, {0x0F37, 0x0F37}, {0x0F39, 0x0F39}, {0x0F3E, 0x0F3F}, {0x0F71, 0x0F84},
    {0x0F86, 0x0F87}, {0x0F8D, 0x0F97}, {0x0F99, 0x0FBC}, {0x0FC6, 0x0FC6}, {0x135D, 0x135F},
    {0x1712, 0x1715}, {0x1732, 0x1734}, {0x1752, 0x1753}, {0x1772, 0x1773}, {0x17B4, 0x17B5},
    {0x180B, 0x180D}, {0x180F, 0x180F}, {0x1885, 0x1886}, {0x18A9, 0x18A9}, {0x1920, 0x192B},
    {0x1930, 0x193B}, {0x1A17, 0x1A1B}, {0x1A55, 0x1A5E}, {0x1A60, 0x1A7C}, {0x1A7F, 0x1A7F},
    {0x1AB0, 0x1AF0}, {0x1B00, 0x1B04}, {0x1B34, 0x1B44}, {0x1B6B, 0x1B73}, {0x1B80, 0x1B82},
    {0x1BA1, 0x1BAD}, {0x1BE6, 0x1BF3}, {0x1C24, 0x1C37}, {0x1CD0, 0x1CD2}, {0x1CD4, 0x1CE8},
    {0x1CED, 0x1CED}, {0x1CF4, 0x1CF4}, {0x1CF7, 0x1CF9}, {0x1DC0, 0x1DFF}, {0x20D0, 0x20F0},
    {0x2CEF, 0x2CF1}, {0x2D7F, 0x2D7F}, {0x2DE0, 0x2DFF}, {0x302E, 0x302F}, {0xA66F, 0xA672},
    {0xA674, 0xA67D}, {0xA69E, 0xA69F}, {0xA6F0, 0xA6F1}, {0xA802, 0xA802}, {0xA806, 0xA806},
    {0xA80B, 0xA80B}, {0xA823, 0xA827}, {0xA82C, 0xA82C}, {0xA880, 0xA881}, {0xA8B4, 0xA8C5},
    {0xA8E0, 0xA8F1}, {0xA8FF, 0xA8FF}, {0xA926, 0xA92D}, {0xA947, 0xA953}, {0xA980, 0xA983},
    {0xA9B3, 0xA9C0}, {0xAA29, 0xAA36}, {0xAA43, 0xAA43}, {0xAA4C, 0xAA4D}, {0xAAB0, 0xAAB0},
    {0xAAB2, 0xAAB4}, {0xAAB7, 0xAAB8}, {0xAABE, 0xAABF}, {0xAAC1, 0xAAC1}, {0xAAEB, 0xAAEF},
    {0xAAF5, 0xAAF6}, {0xABE3, 0xABEA}, {0xABEC, 0xABED}, {0xFB1E, 0xFB1E}, {0xFE00, 0xFE0F},
    {0xFE20, 0xFE2F}, {0x101FD, 0x101FD}, {0x102E0, 0x102E0}, {0x10376, 0x1037A}, {0x10A01,
    0x10A03}, {0x10A05, 0x10A06}, {0x10A0C, 0x10A0F}, {0x10A38, 0x10A3A}, {0x10A3F, 0x10A3F},
    {0x10AE5, 0x10AE6}, {0x10D24, 0x10D27}, {0x10D69, 0x10D6D}, {0x10EAB, 0x10EAC}, {0x10ECB,
    0x10ECF}, {0x10EF0, 0x10EFF}, {0x10F46, 0x10F50}, {0x10F82, 0x10F85}, {0x11000, 0x11002},
    {0x11038, 0x11046}, {0x11070, 0x11070}, {0x11073, 0x11074}, {0x1107F, 0x11082}, {0x110B0,
    0x110BA}, {0x110C2, 0x110C2}, {0x11100, 0x11102}, {0x11127, 0x11134}, {0x11145, 0x11146},
    {0x11173, 0x11173}, {0x11180, 0x11182}, {0x111B3, 0x111C0}, {0x111C9, 0x111CC}, {0x111CE,
    0x111CF}, {0x1122C, 0x11237}, {0x1123E, 0x1123E}, {0x11241, 0x11241}, {0x112DF, 0x112EA},
    {0x11300, 0x11303}, {0x1133B, 0x1133C}, {0x1133E, 0x11344}, {0x11347, 0x11348}, {0x1134B,
    0x1134D}, {0x11357, 0x11357}, {0x11362, 0x11363}, {0x11366, 0x1136C}, {0x11370, 0x11374},
    {0x113B8, 0x113C0}, {0x113C2, 0x113C2}, {0x113C5, 0x113C5}, {0x113C7, 0x113CA}, {0x113CC,
    0x113D0}, {0x113D2, 0x113D2}, {0x113E1, 0x113E2}, {0x11435, 0x11446}, {0x1145E, 0x1145E},
    {0x114B0, 0x114C3}, {0x115AF, 0x115B5}, {0x115B8, 0x115C0}, {0x115DC, 0x115DD}, {0x11630,
    0x11640}, {0x116AB, 0x116B7}, {0x1171D, 0x1172B}, {0x1182C, 0x1183A}, {0x11930, 0x11935},
    {0x11937, 0x11938}, {0x1193B, 0x1193E}, {0x11940, 0x11940}, {0x11942, 0x11943}, {0x119D1,
    0x119D7}, {0x119DA, 0x119E0}, {0x119E4, 0x119E4}, {0x11A01, 0x11A0A}, {0x11A33, 0x11A39},
    {0x11A3B, 0x11A3E}, {0x11A47, 0x11A47}, {0x11A51, 0x11A5B}, {0x11A8A, 0x11A99}, {0x11B60,
    0x11B67}, {0x11C2F, 0x11C36}, {0x11C38, 0x11C3F}, {0x11C92, 0x11CA7}, {0x11CA9, 0x11CB6},
    {0x11D31, 0x11D36}, {0x11D3A, 0x11D3A}, {0x11D3C, 0x11D3D}, {0x11D3F, 0x11D45}, {0x11D47,
    0x11D47}, {0x11D8A, 0x11D8E}, {0x11D90, 0x11D91}, {0x11D93, 0x11D97}, {0x11DF0, 0x11DF0},
    {0x11EF3, 0x11EF6}, {0x11F00, 0x11F01}, {0x11F03, 0x11F03}, {0x11F34, 0x11F3A}, {0x11F3E,
    0x11F42}, {0x11F5A, 0x11F5A}, {0x13440, 0x13440}, {0x13447, 0x13455}, {0x1611E, 0x1612F},
    {0x16AF0, 0x16AF4}, {0x16B30, 0x16B36}, {0x16F4F, 0x16F4F}, {0x16F51, 0x16F87}, {0x16F8F,
    0x16F92}, {0x16FE4, 0x16FE4}, {0x16FF0, 0x16FF1}, {0x1BC9D, 0x1BC9E}, {0x1CF00, 0x1CF2D},
    {0x1CF30, 0x1CF46}, {0x1D127, 0x1D128}, {0x1D165, 0x1D169}, {0x1D16D, 0x1D172}, {0x1D17B,
    0x1D182}, {0x1D185, 0x1D18B}, {0x1D1AA, 0x1D1AD}, {0x1D242, 0x1D244}, {0x1D250, 0x1D252},
    {0x1D25B, 0x1D25C}, {0x1D25F, 0x1D25F}, {0x1D280, 0x1D281}, {0x1DA00, 0x1DA36}, {0x1DA3B,
    0x1DA6C}, {0x1DA75, 0x1DA75}, {0x1DA84, 0x1DA84}, {0x1DA9B, 0x1DA9F}, {0x1DAA1, 0x1DAAF},
    {0x1E000, 0x1E006}, {0x1E008, 0x1E018}, {0x1E01B, 0x1E021}, {0x1E023, 0x1E024}, {0x1E026,
    0x1E02A}, {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF},
    {0x1E4EC, 0x1E4EF}, {0x1E5EE, 0x1E5EF}, {0x1E6E3, 0x1E6E3}, {0x1E6E6, 0x1E6E6}, {0x1E6EE,
    0x1E6EF}, {0x1E6F5, 0x1E6F5}, {0x1E8D0, 0x1E8D6}, {0x1E944, 0x1E94A}, {0xE0100, 0xE01EF},
};
static const uint32_t ignorable_ranges[][2] = {
    {0x00AD, 0x00AD}, {0x034F, 0x034F}, {0x061C, 0x061C}, {0x115F, 0x1160}, {0x17B4, 0x17B5},
    {0x180B, 0x180F}, {0x200B, 0x200F}, {0x202A, 0x202E}, {0x2060, 0x206F}, {0x3164, 0x3164},
    {0xFE00, 0xFE0F}, {0xFEFF, 0xFEFF}, {0xFFA0, 0xFFA0}, {0xFFF0, 0xFFF8}, {0x1BCA0, 0x1BCA3},
    {0x1D173, 0x1D17A}, {0xE0000, 0xE0FFF},
};
/* clang-format on */

#define LENGTH(array) (sizeof(array) / sizeof *(array))

/* A character of a word, one that is a word, and one that belongs to the word before it. */
enum { CLASS_NONE = 0, CLASS_WORD = 1, CLASS_SINGLE = 2, CLASS_MARK = 4 };

/* Classes of the code points below 0x20000; filled once at import, then only read. */
static uint8_t classes[0x20000];

/* Whether a code point is in one of n ranges, which are in order. */
static int is_in(const uint32_t ranges[][2], size_t n, uint32_t point)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (point > ranges[middle][1])
            low = middle + 1;
        else
            high = middle;
    }
    return low < n && point >= ranges[low][0];
}

static uint8_t classify(uint32_t point)
{
    if (is_in(spaceless_ranges, LENGTH(spaceless_ranges), point))
        return CLASS_SINGLE;
    if (is_in(mark_ranges, LENGTH(mark_ranges), point))
        return CLASS_MARK;
    return point == '_' || Py_UNICODE_ISALNUM(point) ? CLASS_WORD : CLASS_NONE;
}

void fill_classes(void)
{
    for (uint32_t point = 0; point < sizeof classes; point++)
        classes[point] = classify(point);
}

/* The class of a code point in a text that is not normalised: one that normalising takes out cuts no word. */
static inline uint8_t raw_class(uint32_t point)
{
    if (point < 0x80)
        return classes[point];
    if (is_in(ignorable_ranges, LENGTH(ignorable_ranges), point))
        return CLASS_MARK;
    return point < sizeof classes ? classes[point] : classify(point);
}

static inline uint32_t read_point(const Text *text, size_t i)
{
    return PyUnicode_READ(text->width, text->points, i);
}

int find_word(const Text *text, size_t *start, size_t *at)
{
    size_t i = *at;
    uint8_t first = CLASS_NONE;
    for (; i < text->length; i++) {
        first = raw_class(read_point(text, i));
        if (first == CLASS_WORD || first == CLASS_SINGLE)
            break;
    }
    if (i == text->length)
        return 0;
    *start = i++;
    for (; i < text->length; i++) {
        uint8_t class = raw_class(read_point(text, i));
        if (class != CLASS_MARK && (class != CLASS_WORD || first == CLASS_SINGLE))
            break;
    }
    *at = i;
    return 1;
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
   4 bytes, so 2 * length + 1 bytes hold everything. A mark belongs to the word that it follows: within a
   word, or right after a single character and its marks, where it comes before the blank. (The place is kept
   in variables: for all that C knows, writing a byte might change it.) */
static inline void take_words(Place *place, uint8_t *out, const uint8_t *text, size_t end)
{
    size_t i = place->read, written = place->written, inside = place->inside;
    size_t single = place->single;
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
        size_t class = point < sizeof classes ? classes[point] : classify(point);
        if (class == CLASS_MARK && !inside && i == single && i) {
            written--;
            class = CLASS_SINGLE;
        }
        size_t word = (class & CLASS_WORD) | (class / CLASS_MARK & inside);
        out[written] = ' ';
        written += inside & !word;
        for (size_t j = 0; j < width; j++)
            out[written + j] = text[i + j];
        written += word || class == CLASS_SINGLE ? width : 0;
        out[written] = ' ';
        written += class == CLASS_SINGLE;
        inside = word;
        i += width;
        single = class == CLASS_SINGLE ? i : single;
    }
    *place = (Place){i, written, inside, 0, single};
}

static size_t end_words(Place *place, uint8_t *out)
{
    if (place->inside)
        out[place->written++] = ' ';
    return place->written;
}

/* Whether a text is empty or all white space, as str.isspace() has it. */
int is_blank(const uint8_t *text, size_t length)
{
    for (size_t i = 0; i < length;) {
        size_t width = text[i] < 0x80 ? 1 : text[i] < 0xE0 ? 2 : text[i] < 0xF0 ? 3 : 4;
        if (!Py_UNICODE_ISSPACE(width == 1 ? text[i] : point_of(text + i, width)))
            return 0;
        i += width;
    }
    return 1;
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
