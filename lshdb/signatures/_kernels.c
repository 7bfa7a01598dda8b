/* From text to signature without a Python object a token, and without the GIL.

   Everything here has a reference in Python that gives the same bits: shingling/ (words, shingles,
   their hashes), fss.py and universal.py (sketches), banding.py (bucket keys). The definitions are
   in docs/format.md; this file says only how they are computed.

   A text is UTF-8 that Python has normalised. One pass copies its words into a buffer with one blank
   between them and notes where each begins; a shingle of k words is then one range of that
   buffer, hashed in place. The buffer ends in 16 bytes of padding, so that the hash may load whole words
   past the end of a range. Distinct hashes are collected in an open table, then sketched.

   No function takes a pointer from Python without its length being checked first, in the wrappers
   at the end of the file. Memory: a workspace a call, which grows to the longest text. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define PADDING 16
#define MAX_NUM_PERM 4096

enum { UNIT_WORD, UNIT_CHAR };
enum { SCHEME_FSS, SCHEME_UNIVERSAL };

/* ---- the mixer and the stream of keys (mixing.py) ---- */

static inline uint64_t mix64(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

static inline uint64_t stream_key(uint64_t seed, uint64_t number)
{
    return mix64(seed + (number + 1) * UINT64_C(0x9E3779B97F4A7C15));
}

/* ---- MurmurHash3 x64-128, its low 64 bits ---- */

static inline uint64_t load64(const uint8_t *bytes)
{
    uint64_t word;
    memcpy(&word, bytes, 8);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

static inline uint64_t rotate(uint64_t x, int by) { return (x << by) | (x >> (64 - by)); }

static inline uint64_t final_mix(uint64_t z)
{
    z = (z ^ (z >> 33)) * UINT64_C(0xFF51AFD7ED558CCD);
    z = (z ^ (z >> 33)) * UINT64_C(0xC4CEB9FE1A85EC53);
    return z ^ (z >> 33);
}

/* Low `count` bytes of a word, 0 <= count <= 8. */
static inline uint64_t low_bytes(uint64_t word, size_t count)
{
    return count >= 8 ? word : word & ((UINT64_C(1) << (8 * count)) - 1);
}

/* Reads up to 15 bytes past the end: callers keep PADDING bytes there. */
static uint64_t murmur3(const uint8_t *bytes, size_t length, uint32_t seed)
{
    const uint64_t c1 = UINT64_C(0x87C37B91114253D5), c2 = UINT64_C(0x4CF5AD432745937F);
    uint64_t h1 = seed, h2 = seed;
    const uint8_t *end = bytes + (length & ~(size_t)15);
    for (; bytes != end; bytes += 16) {
        h1 ^= rotate(load64(bytes) * c1, 31) * c2;
        h1 = (rotate(h1, 27) + h2) * 5 + 0x52DCE729;
        h2 ^= rotate(load64(bytes + 8) * c2, 33) * c1;
        h2 = (rotate(h2, 31) + h1) * 5 + 0x38495AB5;
    }
    size_t rest = length & 15;
    if (rest) {
        uint64_t k1 = low_bytes(load64(bytes), rest);
        uint64_t k2 = rest > 8 ? low_bytes(load64(bytes + 8), rest - 8) : 0;
        h2 ^= rotate(k2 * c2, 33) * c1;
        h1 ^= rotate(k1 * c1, 31) * c2;
    }
    h1 ^= length;
    h2 ^= length;
    h1 += h2;
    h2 += h1;
    return final_mix(h1) + final_mix(h2);
}

/* ---- workspace ---- */

typedef struct {
    uint8_t *text;       /* words, one blank between them, and PADDING */
    size_t *starts;      /* where each word (or character) begins, and the end + 1 of the last */
    uint64_t *hashes;    /* the distinct elements */
    uint64_t *table;     /* open addressing, a power of two of entries; bags keep counts beside */
    uint32_t *counts;
    uint64_t *slots;     /* round and value of each slot while sketching */
    size_t text_size, starts_size, hashes_size, table_size;
} Workspace;

static void release(Workspace *work)
{
    free(work->text);
    free(work->starts);
    free(work->hashes);
    free(work->table);
    free(work->counts);
    free(work->slots);
}

/* Make room for a text of `length` bytes; 0, or -1 without memory. */
static int reserve_text(Workspace *work, size_t length)
{
    size_t text = 2 * length + 2 * PADDING, starts = length + 2;
    if (work->text_size < text) {
        free(work->text);
        work->text = malloc(text);
        work->text_size = work->text ? text : 0;
        if (!work->text)
            return -1;
    }
    if (work->starts_size < starts) {
        free(work->starts);
        work->starts = malloc(starts * sizeof *work->starts);
        work->starts_size = work->starts ? starts : 0;
        if (!work->starts)
            return -1;
    }
    return 0;
}

/* Make room for `count` hashes and an empty table of at least twice as many; returns its size. */
static size_t reserve_hashes(Workspace *work, size_t count, int bag)
{
    size_t size = 64;
    while (size < 2 * count)
        size *= 2;
    if (work->hashes_size < count) {
        free(work->hashes);
        work->hashes = malloc(count * sizeof *work->hashes);
        work->hashes_size = work->hashes ? count : 0;
        if (!work->hashes)
            return 0;
    }
    if (work->table_size < size || (bag && !work->counts)) {
        free(work->table);
        free(work->counts);
        work->counts = NULL;
        work->table = malloc(size * sizeof *work->table);
        if (bag)
            work->counts = malloc(size * sizeof *work->counts);
        work->table_size = work->table && (!bag || work->counts) ? size : 0;
        if (!work->table_size)
            return 0;
    }
    memset(work->table, 0, size * sizeof *work->table);
    return size;
}

/* ---- words (tokens.py) ---- */

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

/* Classes of the code points below 0x20000, filled by fill_classes at import, then only read. */
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

static void fill_classes(void)
{
    for (uint32_t point = 0; point < sizeof classes; point++)
        classes[point] = (uint8_t)classify(point);
}

/* Copy the words of a text with one blank between them; number of words. Every word needs a byte
   of text, and a single character at most three of its own with a blank: 2 * length + 1 holds all. */
static size_t split_words(Workspace *work, const uint8_t *text, size_t length)
{
    uint8_t *out = work->text;
    size_t *starts = work->starts;
    size_t written = 0, words = 0, inside = 0, i = 0;
    while (i < length) {
        uint8_t byte = text[i];
        if (byte < 0x80) {
            /* Without branches on the data: a byte of a word, or the blank after one, is kept. */
            size_t word = classes[byte] == CLASS_WORD;
            starts[words] = written;
            words += word & ~inside;
            out[written] = word ? byte : ' ';
            written += word | inside;
            inside = word;
            i++;
            continue;
        }
        size_t width = byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
        uint32_t point = width == 2   ? (byte & 0x1Fu) << 6 | (text[i + 1] & 0x3Fu)
                         : width == 3 ? (byte & 0x0Fu) << 12 | (text[i + 1] & 0x3Fu) << 6
                                            | (text[i + 2] & 0x3Fu)
                                      : (byte & 0x07u) << 18 | (text[i + 1] & 0x3Fu) << 12
                                            | (text[i + 2] & 0x3Fu) << 6 | (text[i + 3] & 0x3Fu);
        int class = point < sizeof classes ? classes[point] : classify(point);
        if (class != CLASS_WORD && inside) {
            out[written++] = ' ';
            inside = 0;
        }
        if (class != CLASS_NONE) {
            if (!inside)
                starts[words++] = written;
            memcpy(out + written, text + i, width);
            written += width;
            inside = 1;
            if (class == CLASS_SINGLE) {
                out[written++] = ' ';
                inside = 0;
            }
        }
        i += width;
    }
    if (inside)
        out[written++] = ' ';
    starts[words] = written;
    memset(out + written, 0, PADDING);
    return words;
}

/* Copy a text and note where each character begins; number of characters. */
static size_t split_chars(Workspace *work, const uint8_t *text, size_t length)
{
    size_t chars = 0;
    memcpy(work->text, text, length);
    memset(work->text + length, 0, PADDING);
    for (size_t i = 0; i < length; i++) {
        work->starts[chars] = i;
        chars += (text[i] & 0xC0) != 0x80;
    }
    work->starts[chars] = length;
    return chars;
}

/* ---- shingles (shingles.py) ---- */

/* Place of a hash in the table, or the empty place where it belongs. Zero, which marks an empty
   place, cannot be stored: the caller keeps it apart. */
static inline size_t find(const uint64_t *table, size_t size, uint64_t hash)
{
    size_t place = (hash * UINT64_C(0x9E3779B97F4A7C15)) >> 32 & (size - 1);
    while (table[place] && table[place] != hash)
        place = (place + 1) & (size - 1);
    return place;
}

/* Distinct elements of a text's set or bag into work->hashes; their number, or -1 without memory. */
static Py_ssize_t shingle(Workspace *work, const uint8_t *text, size_t length, int unit, size_t k,
                          int bag)
{
    if (reserve_text(work, length))
        return -1;
    size_t tokens = unit == UNIT_WORD ? split_words(work, text, length)
                                      : split_chars(work, text, length);
    if (!tokens)
        return 0;
    size_t gap = unit == UNIT_WORD; /* the blank that follows a shingle is not part of it */
    size_t count = tokens > k ? tokens - k + 1 : 1, width = tokens > k ? k : tokens;
    size_t size = reserve_hashes(work, count, bag);
    if (!size)
        return -1;
    const size_t *starts = work->starts;
    size_t found = 0;
    uint32_t zeros = 0;
    for (size_t i = 0; i < count; i++) {
        const uint8_t *bytes = work->text + starts[i];
        size_t bytes_length = starts[i + width] - gap - starts[i];
        uint64_t hash = murmur3(bytes, bytes_length, 0);
        uint32_t repeats;
        if (!hash) {
            repeats = zeros++;
        } else {
            size_t place = find(work->table, size, hash);
            if (!work->table[place]) {
                work->table[place] = hash;
                repeats = 0;
                if (bag)
                    work->counts[place] = 1;
            } else {
                repeats = bag ? work->counts[place]++ : 1;
            }
        }
        if (!repeats)
            work->hashes[found++] = hash;
        else if (bag)
            work->hashes[found++] = murmur3(bytes, bytes_length, repeats);
    }
    return (Py_ssize_t)found;
}

/* ---- scheme fss (fss.py) ---- */

/* Throws are made a block at a time: first the hashes, in a loop that the compiler turns into vector
   instructions, then the slots, without a branch. A value carries its round above its 32 bits, so
   the order of the throws makes no difference, nor do rounds past the one that fills the last slot. */
#define BLOCK 256

typedef void ThrowFunction(const uint64_t *across, size_t n, uint64_t fixed, uint64_t rank,
                           uint64_t rank_step, uint32_t num_perm, uint64_t *values, uint32_t *bins);

#define DEFINE_THROW(name, attribute)                                                              \
    attribute static void name(const uint64_t *restrict across, size_t n, uint64_t fixed,          \
                               uint64_t rank, uint64_t rank_step, uint32_t num_perm,               \
                               uint64_t *restrict values, uint32_t *restrict bins)                 \
    {                                                                                              \
        for (size_t i = 0; i < n; i++) {                                                           \
            uint64_t mixed = mix64(across[i] ^ fixed);                                             \
            bins[i] = (uint32_t)((mixed >> 32) * (uint64_t)num_perm >> 32);                        \
            values[i] = (rank + i * rank_step) | (uint32_t)mixed;                                  \
        }                                                                                          \
    }

DEFINE_THROW(throw_plain, )
#if defined(__x86_64__) && defined(__GNUC__)
DEFINE_THROW(throw_avx2, __attribute__((target("avx2"))))
DEFINE_THROW(throw_avx512, __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw"))))
#endif

static ThrowFunction *throw_hashes = throw_plain;
static const char *level = "plain";

static inline void keep_smallest(uint64_t *slots, const uint64_t *values, const uint32_t *bins,
                                 size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t *slot = &slots[bins[i]], value = values[i], kept = *slot;
        *slot = value < kept ? value : kept;
    }
}

static int any_empty(const uint64_t *slots, uint32_t num_perm)
{
    uint64_t largest = 0;
    for (uint32_t j = 0; j < num_perm; j++)
        largest |= slots[j] == UINT64_MAX;
    return largest != 0;
}

static void sketch_fss(Workspace *work, const uint64_t *hashes, size_t n, uint32_t num_perm,
                       const uint64_t *keys, uint32_t *row)
{
    uint64_t *slots = work->slots, values[BLOCK];
    uint32_t bins[BLOCK], round = 0;
    int empty = 1;
    memset(slots, 0xFF, num_perm * sizeof *slots);
    while (empty && round < num_perm) {
        /* Enough rounds for about as many throws as there are slots, then look. */
        uint32_t most = num_perm - round, rounds = (uint32_t)(num_perm / n) + 1;
        rounds = rounds < most ? rounds : most;
        if (n >= 32) {
            for (uint32_t last = round + rounds; round < last; round++)
                for (size_t i = 0; i < n; i += BLOCK) {
                    size_t some = n - i < BLOCK ? n - i : BLOCK;
                    throw_hashes(hashes + i, some, keys[round], (uint64_t)round << 32, 0, num_perm,
                                 values, bins);
                    keep_smallest(slots, values, bins, some);
                }
        } else {
            rounds = rounds < BLOCK ? rounds : BLOCK;
            for (size_t i = 0; i < n; i++) {
                throw_hashes(keys + round, rounds, hashes[i], (uint64_t)round << 32,
                             UINT64_C(1) << 32, num_perm, values, bins);
                keep_smallest(slots, values, bins, rounds);
            }
            round += rounds;
        }
        empty = any_empty(slots, num_perm);
    }
    for (uint32_t j = 0; empty && j < num_perm; j++) {
        if (slots[j] != UINT64_MAX)
            continue;
        for (size_t i = 0; i < n; i++) {
            uint64_t value = (uint32_t)mix64(hashes[i] ^ keys[num_perm + j]);
            slots[j] = value < slots[j] ? value : slots[j];
        }
    }
    for (uint32_t j = 0; j < num_perm; j++)
        row[j] = (uint32_t)slots[j];
}

/* ---- scheme universal (universal.py) ---- */

#define PRIME ((UINT64_C(1) << 61) - 1)

static inline uint64_t multiply_add(uint64_t a, uint64_t x, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * x + b;
    uint64_t folded = ((uint64_t)product & PRIME) + (uint64_t)(product >> 61);
    return folded >= PRIME ? folded - PRIME : folded;
}

static void sketch_universal(const uint64_t *hashes, size_t n, uint32_t num_perm,
                             const uint64_t *pairs, uint32_t *row)
{
    memset(row, 0xFF, num_perm * sizeof *row);
    for (size_t i = 0; i < n; i++) {
        uint64_t x = (hashes[i] & PRIME) + (hashes[i] >> 61);
        x = x >= PRIME ? x - PRIME : x;
        for (uint32_t j = 0; j < num_perm; j++) {
            uint32_t value = (uint32_t)multiply_add(pairs[2 * j], x, pairs[2 * j + 1]);
            row[j] = value < row[j] ? value : row[j];
        }
    }
}

/* ---- bucket keys (banding.py) and comparisons ---- */

static void bucket_keys(const uint32_t *rows, size_t n, size_t num_perm, size_t bands, size_t height,
                        uint64_t *keys)
{
    for (size_t i = 0; i < n; i++, rows += num_perm)
        for (size_t band = 0; band < bands; band++) {
            const uint32_t *slots = rows + band * height;
            uint64_t hash = mix64(band + 1);
            for (size_t j = 0; j < height; j++)
                hash = mix64(hash ^ slots[j]);
            *keys++ = (hash & ((UINT64_C(1) << 56) - 1)) | (uint64_t)band << 56;
        }
}

static size_t count_common(const uint64_t *left, size_t n_left, const uint64_t *right,
                           size_t n_right)
{
    size_t i = 0, j = 0, common = 0;
    while (i < n_left && j < n_right) {
        uint64_t a = left[i], b = right[j];
        common += a == b;
        i += a <= b;
        j += b <= a;
    }
    return common;
}

/* ---- what Python sees ---- */

static int is_length(const Py_buffer *buffer, Py_ssize_t count, size_t width, const char *name)
{
    if (count >= 0 && buffer->len == count * (Py_ssize_t)width)
        return 1;
    PyErr_Format(PyExc_ValueError, "%s has %zd bytes, expected %zd times %zu", name, buffer->len,
                 count, width);
    return 0;
}

/* The options of a scheme, checked against the constants that come with it. */
static int is_scheme(int scheme, Py_ssize_t num_perm, const Py_buffer *constants)
{
    if ((scheme != SCHEME_FSS && scheme != SCHEME_UNIVERSAL) || num_perm < 1
        || num_perm > MAX_NUM_PERM) {
        PyErr_SetString(PyExc_ValueError, "scheme or num_perm is out of range");
        return 0;
    }
    return is_length(constants, 2 * num_perm, 8, "constants");
}

static int is_shingling(int unit, Py_ssize_t k)
{
    if ((unit == UNIT_WORD || unit == UNIT_CHAR) && k >= 1)
        return 1;
    PyErr_SetString(PyExc_ValueError, "unit or k is out of range");
    return 0;
}

static int sketch_one(Workspace *work, int scheme, const uint64_t *hashes, size_t n,
                      uint32_t num_perm, const uint64_t *constants, uint32_t *row)
{
    if (scheme == SCHEME_UNIVERSAL) {
        sketch_universal(hashes, n, num_perm, constants, row);
        return 0;
    }
    if (!work->slots && !(work->slots = malloc(num_perm * sizeof *work->slots)))
        return -1;
    sketch_fss(work, hashes, n, num_perm, constants, row);
    return 0;
}

PyDoc_STRVAR(sign_texts_doc,
"sign_texts(texts, unit, k, bag, scheme, num_perm, constants, rows, counts)\n--\n\n"
"Sign normalised texts into rows (n, num_perm) of uint32, and the number of distinct\n"
"shingles of each into counts (n,) of int64; the row of a text without any is left alone.\n"
"texts is a list of str; constants is the scheme's 2 * num_perm numbers (uint64).");

static PyObject *py_sign_texts(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *texts, *result = NULL;
    int unit, bag, scheme;
    Py_ssize_t k, num_perm;
    Py_buffer constants = {0}, rows = {0}, counts = {0};
    const char **pointers = NULL;
    Py_ssize_t *lengths = NULL;
    if (!PyArg_ParseTuple(args, "O!inpiny*w*w*", &PyList_Type, &texts, &unit, &k, &bag, &scheme,
                          &num_perm, &constants, &rows, &counts))
        return NULL;
    Py_ssize_t n = PyList_GET_SIZE(texts);
    if (!is_shingling(unit, k) || !is_scheme(scheme, num_perm, &constants)
        || !is_length(&rows, n * num_perm, 4, "rows") || !is_length(&counts, n, 8, "counts"))
        goto done;
    /* A tuple of our own keeps the texts alive while another thread may change the list. */
    PyObject *kept = PyList_AsTuple(texts);
    pointers = malloc((size_t)(n + 1) * sizeof *pointers);
    lengths = malloc((size_t)(n + 1) * sizeof *lengths);
    if (!kept || !pointers || !lengths || PyTuple_GET_SIZE(kept) != n) {
        if (!PyErr_Occurred())
            PyErr_NoMemory();
        Py_XDECREF(kept);
        goto done;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *text = PyTuple_GET_ITEM(kept, i);
        if (!PyUnicode_Check(text)) {
            PyErr_Format(PyExc_TypeError, "text %zd is %.100s, expected str", i,
                         Py_TYPE(text)->tp_name);
            Py_DECREF(kept);
            goto done;
        }
        pointers[i] = PyUnicode_AsUTF8AndSize(text, &lengths[i]);
        if (!pointers[i]) {
            Py_DECREF(kept);
            goto done;
        }
    }
    int failed = 0;
    Py_BEGIN_ALLOW_THREADS
    Workspace work = {0};
    for (Py_ssize_t i = 0; i < n && !failed; i++) {
        Py_ssize_t found = shingle(&work, (const uint8_t *)pointers[i], (size_t)lengths[i], unit,
                                   (size_t)k, bag);
        ((int64_t *)counts.buf)[i] = found;
        failed = found < 0
                 || (found > 0
                     && sketch_one(&work, scheme, work.hashes, (size_t)found, (uint32_t)num_perm,
                                   constants.buf, (uint32_t *)rows.buf + i * num_perm));
    }
    release(&work);
    Py_END_ALLOW_THREADS
    Py_DECREF(kept);
    if (failed)
        PyErr_NoMemory();
    else
        result = Py_NewRef(Py_None);
done:
    free(pointers);
    free(lengths);
    PyBuffer_Release(&constants);
    PyBuffer_Release(&rows);
    PyBuffer_Release(&counts);
    return result;
}

PyDoc_STRVAR(shingle_text_doc,
"shingle_text(text, unit, k, bag)\n--\n\n"
"Distinct shingle hashes of a normalised text: bytes of uint64 in native order, unsorted.");

static PyObject *py_shingle_text(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *text, *result = NULL;
    int unit, bag;
    Py_ssize_t k, length;
    if (!PyArg_ParseTuple(args, "Uinp", &text, &unit, &k, &bag) || !is_shingling(unit, k))
        return NULL;
    const char *bytes = PyUnicode_AsUTF8AndSize(text, &length);
    if (!bytes)
        return NULL;
    Workspace work = {0};
    Py_ssize_t found;
    Py_BEGIN_ALLOW_THREADS
    found = shingle(&work, (const uint8_t *)bytes, (size_t)length, unit, (size_t)k, bag);
    Py_END_ALLOW_THREADS
    result = found < 0 ? PyErr_NoMemory()
                       : PyBytes_FromStringAndSize(found ? (char *)work.hashes : "", found * 8);
    release(&work);
    return result;
}

PyDoc_STRVAR(sketch_doc,
"sketch(hashes, lengths, scheme, num_perm, constants, rows)\n--\n\n"
"Sketch sets of hashes, given one after the other (uint64) with the length of each (int64, at\n"
"least 1), into rows (n, num_perm) of uint32.");

static PyObject *py_sketch(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *result = NULL;
    int scheme;
    Py_ssize_t num_perm;
    Py_buffer hashes = {0}, lengths = {0}, constants = {0}, rows = {0};
    if (!PyArg_ParseTuple(args, "y*y*iny*w*", &hashes, &lengths, &scheme, &num_perm, &constants,
                          &rows))
        return NULL;
    Py_ssize_t n = lengths.len / 8, total = 0, most = hashes.len / 8;
    const int64_t *counts = lengths.buf;
    if (!is_scheme(scheme, num_perm, &constants) || !is_length(&lengths, n, 8, "lengths")
        || !is_length(&rows, n * num_perm, 4, "rows"))
        goto done;
    for (Py_ssize_t i = 0; i < n; i++) {
        if (counts[i] < 1 || counts[i] > most - total) {
            PyErr_SetString(PyExc_ValueError, "a length is below 1 or reaches past the hashes");
            goto done;
        }
        total += (Py_ssize_t)counts[i];
    }
    if (!is_length(&hashes, total, 8, "hashes"))
        goto done;
    int failed = 0;
    Py_BEGIN_ALLOW_THREADS
    Workspace work = {0};
    const uint64_t *set = hashes.buf;
    for (Py_ssize_t i = 0; i < n && !failed; set += counts[i++])
        failed = sketch_one(&work, scheme, set, (size_t)counts[i], (uint32_t)num_perm,
                            constants.buf, (uint32_t *)rows.buf + i * num_perm);
    release(&work);
    Py_END_ALLOW_THREADS
    if (failed)
        PyErr_NoMemory();
    else
        result = Py_NewRef(Py_None);
done:
    PyBuffer_Release(&hashes);
    PyBuffer_Release(&lengths);
    PyBuffer_Release(&constants);
    PyBuffer_Release(&rows);
    return result;
}

PyDoc_STRVAR(bucket_keys_doc,
"bucket_keys(rows, num_perm, bands, height, keys)\n--\n\n"
"Bucket keys of signature rows (n, num_perm), uint32, into keys (n, bands), int64.");

static PyObject *py_bucket_keys(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *result = NULL;
    Py_ssize_t num_perm, bands, height;
    Py_buffer rows = {0}, keys = {0};
    if (!PyArg_ParseTuple(args, "y*nnnw*", &rows, &num_perm, &bands, &height, &keys))
        return NULL;
    if (num_perm < 1 || num_perm > MAX_NUM_PERM || bands < 1 || bands > 255 || height < 1
        || height > num_perm / bands) {
        PyErr_SetString(PyExc_ValueError, "num_perm, bands or rows is out of range");
        goto done;
    }
    Py_ssize_t n = rows.len / (4 * num_perm);
    if (!is_length(&rows, n * num_perm, 4, "rows") || !is_length(&keys, n * bands, 8, "keys"))
        goto done;
    Py_BEGIN_ALLOW_THREADS
    bucket_keys(rows.buf, (size_t)n, (size_t)num_perm, (size_t)bands, (size_t)height, keys.buf);
    Py_END_ALLOW_THREADS
    result = Py_NewRef(Py_None);
done:
    PyBuffer_Release(&rows);
    PyBuffer_Release(&keys);
    return result;
}

PyDoc_STRVAR(count_common_doc,
"count_common(left, right)\n--\n\n"
"Number of values that two sorted arrays of distinct uint64 share.");

static PyObject *py_count_common(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *result = NULL;
    Py_buffer left = {0}, right = {0};
    if (!PyArg_ParseTuple(args, "y*y*", &left, &right))
        return NULL;
    Py_ssize_t n = left.len / 8, m = right.len / 8;
    if (is_length(&left, n, 8, "left") && is_length(&right, m, 8, "right")) {
        size_t common;
        Py_BEGIN_ALLOW_THREADS
        common = count_common(left.buf, (size_t)n, right.buf, (size_t)m);
        Py_END_ALLOW_THREADS
        result = PyLong_FromSize_t(common);
    }
    PyBuffer_Release(&left);
    PyBuffer_Release(&right);
    return result;
}

/* Take the named level, or the best that the machine has; 0 where it does not have it. */
static int choose_level(const char *name)
{
#if defined(__x86_64__) && defined(__GNUC__)
    __builtin_cpu_init();
    if ((!name || !strcmp(name, "avx512")) && __builtin_cpu_supports("avx512dq")
        && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw")) {
        throw_hashes = throw_avx512;
        level = "avx512";
        return 1;
    }
    if ((!name || !strcmp(name, "avx2")) && __builtin_cpu_supports("avx2")) {
        throw_hashes = throw_avx2;
        level = "avx2";
        return 1;
    }
#endif
    if (!name || !strcmp(name, "plain")) {
        throw_hashes = throw_plain;
        level = "plain";
        return 1;
    }
    return 0;
}

PyDoc_STRVAR(use_level_doc,
"use_level(name=None)\n--\n\n"
"Use the vector instructions of that name (plain, avx2, avx512), or with None the best that the\n"
"machine has; returns the name. ValueError where the machine does not have them.");

static PyObject *py_use_level(PyObject *Py_UNUSED(module), PyObject *args)
{
    const char *name = NULL;
    if (!PyArg_ParseTuple(args, "|z", &name))
        return NULL;
    if (!choose_level(name)) {
        PyErr_Format(PyExc_ValueError, "this machine has no vector instructions %s", name);
        return NULL;
    }
    return PyUnicode_FromString(level);
}

static PyMethodDef methods[] = {
    {"use_level", py_use_level, METH_VARARGS, use_level_doc},
    {"sign_texts", py_sign_texts, METH_VARARGS, sign_texts_doc},
    {"shingle_text", py_shingle_text, METH_VARARGS, shingle_text_doc},
    {"sketch", py_sketch, METH_VARARGS, sketch_doc},
    {"bucket_keys", py_bucket_keys, METH_VARARGS, bucket_keys_doc},
    {"count_common", py_count_common, METH_VARARGS, count_common_doc},
    {NULL, NULL, 0, NULL},
};

static int run_module(PyObject *Py_UNUSED(module))
{
    fill_classes();
    choose_level(NULL);
    return 0;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, run_module},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "lshdb.signatures._kernels",
    .m_doc = "From text to signature in C; see the head of _kernels.c.",
    .m_size = 0,
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__kernels(void) { return PyModuleDef_Init(&definition); }
