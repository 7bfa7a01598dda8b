/* Distinct hashes of a text's shingles (shingles.py).

   A shingle of k tokens is one range of the text that words.c wrote, hashed in place. */

#include <stdlib.h>

#include "hashing.h"
#include "kernel.h"
#include "words.h"

void release(Workspace *work)
{
    free(work->text);
    free(work->starts);
    free(work->hashes);
    free(work->table);
    free(work->seen);
    free(work->slots);
}

/* Reserve at least `needed` elements of `width` bytes at *array, whose contents may be lost; 0 or -1. */
static int reserve(void *array, size_t *size, size_t needed, size_t width)
{
    void **pointer = array;
    size_t bytes;
    if (*size >= needed)
        return 0;
    free(*pointer);
    *pointer = NULL;
    *size = 0;
    needed += needed / 4;
    if (__builtin_mul_overflow(needed, width, &bytes) || !(*pointer = malloc(bytes)))
        return -1;
    *size = needed;
    return 0;
}

/* Places of the table for a text of `count` shingles: few collide in a table a quarter full, but a large
   table should stay in the cache. */
static size_t table_places(size_t count)
{
    size_t places = 64, wanted = count < 2048 ? 4 * count : 2 * count;
    while (places < wanted)
        places *= 2;
    return places;
}

/* Write the non-empty pieces between separators, each with one separator after it. */
size_t split_pieces(uint8_t *out, const uint8_t *text, size_t length, uint8_t separator)
{
    size_t written = 0;
    const uint8_t *end = text + length;
    while (text < end) {
        const uint8_t *stop = memchr(text, separator, (size_t)(end - text));
        size_t piece = (size_t)((stop ? stop : end) - text);
        if (piece) {
            memcpy(out + written, text, piece);
            written += piece;
            out[written++] = separator;
        }
        text += piece + 1;
    }
    return written;
}

static size_t mark_characters(size_t *starts, const uint8_t *text, size_t length)
{
    size_t found = 0;
    for (size_t i = 0; i < length; i++) {
        starts[found] = i;
        found += (text[i] & 0xC0) != 0x80;
    }
    starts[found] = length;
    return found;
}

int reserve_tokens(Workspace *work, size_t tokens, size_t bytes)
{
    return reserve(&work->text, &work->text_size, bytes + 2 * PADDING, 1)
           || reserve(&work->starts, &work->starts_size, tokens + 16, sizeof *work->starts);
}

/* Reserve room for `count` hashes, and the 8 more that sketch() may write. */
int reserve_hashes(Workspace *work, size_t count)
{
    return reserve(&work->hashes, &work->hashes_size, count + 8, sizeof *work->hashes);
}

/* Items between two checks for signals. */
#define AT_ONCE ((size_t)1 << 18)

static inline int is_stopped_at(const Workspace *work, size_t i)
{
    return !(i & (AT_ONCE - 1)) && i && is_stopped(work->listener);
}

/* Write the tokens of a text and mark where they begin. Returns their number, or -1 without memory. */
static ptrdiff_t split(Workspace *work, const uint8_t *text, size_t length, int unit)
{
    if (reserve_tokens(work, length, 2 * length))
        return -1;
    size_t written, found;
    uint8_t separator = unit == UNIT_LINE ? '\n' : ' ';
    switch (unit) {
    case UNIT_WORD:
        written = work->level->split_words(work->text, text, length);
        if (!written && !is_blank(text, length)) { /* the whole text is one token */
            memcpy(work->text, text, length);
            memset(work->text + length, 0, PADDING);
            work->starts[0] = 0;
            work->starts[1] = length + 1;
            return 1;
        }
        break;
    case UNIT_LINE:
    case UNIT_TOKEN:
        written = split_pieces(work->text, text, length, separator);
        break;
    default:
        memcpy(work->text, text, length);
        written = length;
    }
    memset(work->text + written, 0, PADDING);
    if (unit == UNIT_CHAR) {
        found = mark_characters(work->starts, work->text, written);
    } else if (unit == UNIT_BYTE) {
        for (found = 0; found <= length; found++)
            work->starts[found] = found;
        found = length;
    } else {
        found = work->level->mark_starts(work->starts, work->text, written, separator);
    }
    return (ptrdiff_t)found;
}

#define FURTHEST 128
#define FAR SIZE_MAX

/* Find the place of a hash in the table, or the empty place where it belongs. A hash is as good as random,
   unless the words were chosen so that their hashes collide: each would then pass all before it. So a hash
   further than FURTHEST from its own place gets FAR, and the caller replaces the table by a sort, whose time
   does not depend on the hashes. (In a table half full, 1 random hash in 10^10 is that far.) Zero marks an
   empty place and cannot be stored: the caller keeps it apart. */
static inline size_t find(const uint64_t *table, size_t places, uint64_t hash)
{
    size_t place = hash & (places - 1);
    for (int step = 0; table[place] && table[place] != hash; step++) {
        if (step == FURTHEST)
            return FAR;
        place = (place + 1) & (places - 1);
    }
    return place;
}

/* Sort n items of `width` words by their first words, stably, byte by byte; `other` has room for as
   many. After eight bytes they are where they were. */
static int sort_items(const Workspace *work, uint64_t *items, uint64_t *other, size_t n,
                      size_t width)
{
    for (int shift = 0; shift < 64; shift += 8) {
        size_t ends[256] = {0}, sum = 0;
        if (is_stopped(work->listener))
            return WORK_STOPPED;
        for (size_t i = 0; i < n; i++)
            ends[items[i * width] >> shift & 0xFF]++;
        for (int byte = 0; byte < 256; byte++) {
            size_t many = ends[byte];
            ends[byte] = sum;
            sum += many;
        }
        for (size_t i = 0; i < n; i++) {
            if (is_stopped_at(work, i))
                return WORK_STOPPED;
            size_t to = ends[items[i * width] >> shift & 0xFF]++;
            memcpy(other + to * width, items + i * width, width * sizeof *items);
        }
        uint64_t *sorted = other;
        other = items;
        items = sorted;
    }
    return WORK_DONE;
}

/* Keep each of n hashes once, in ascending order. Returns their number, or WORK_STOPPED. The table has at
   least 2 n places. */
static ptrdiff_t sort_distinct(Workspace *work, size_t n)
{
    uint64_t *hashes = work->hashes;
    size_t found = 0;
    if (sort_items(work, hashes, work->table, n, 1))
        return WORK_STOPPED;
    for (size_t i = 0; i < n; i++)
        if (!found || hashes[i] != hashes[found - 1])
            hashes[found++] = hashes[i];
    return (ptrdiff_t)found;
}

/* Most hashes that are sorted by their leading bits, and the most places that one moves afterwards, on
   average. */
#define SORTED_BY_BITS 16384
#define MOVES 16

int sort_hashes(Workspace *work, size_t n)
{
    uint64_t *hashes = work->hashes;
    int bits = 1;
    if (n < 2)
        return WORK_DONE;
    if (reserve(&work->table, &work->table_size, n, sizeof *work->table))
        return WORK_MEMORY;
    if (n > SORTED_BY_BITS)
        return sort_items(work, hashes, work->table, n, 1);
    while (bits < 12 && (size_t)1 << bits < n)
        bits++;
    uint16_t ends[1 << 12] = {0};
    uint64_t *to = work->table;
    for (size_t i = 0; i < n; i++)
        ends[hashes[i] >> (64 - bits)]++;
    for (size_t place = 0, sum = 0; place < (size_t)1 << bits; place++) {
        size_t many = ends[place];
        ends[place] = (uint16_t)sum;
        sum += many;
    }
    for (size_t i = 0; i < n; i++)
        to[ends[hashes[i] >> (64 - bits)]++] = hashes[i];
    /* Random hashes are nearly in order now. Hashes that were chosen to lie close together would move far. */
    size_t moves = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t hash = to[i];
        size_t place = i;
        for (; place && hashes[place - 1] > hash; place--)
            hashes[place] = hashes[place - 1];
        hashes[place] = hash;
        if ((moves += i - place) > MOVES * n) {
            memcpy(hashes + i + 1, to + i + 1, (n - i - 1) * sizeof *hashes);
            return sort_items(work, hashes, to, n, 1);
        }
    }
    return WORK_DONE;
}

ptrdiff_t shingle(Workspace *work, const uint8_t *text, size_t length, int unit, size_t k, int bag)
{
    ptrdiff_t tokens = split(work, text, length, unit);
    size_t gap = unit != UNIT_CHAR && unit != UNIT_BYTE;
    return tokens <= 0 ? tokens : shingle_tokens(work, (size_t)tokens, gap, k, bag);
}

/* Empty the table. */
static int clear_table(Workspace *work, size_t places)
{
    for (size_t begin = 0; begin < places; begin += 4 * AT_ONCE) {
        size_t many = places - begin < 4 * AT_ONCE ? places - begin : 4 * AT_ONCE;
        memset(work->table + begin, 0, many * sizeof *work->table);
        if (is_stopped_at(work, begin))
            return WORK_STOPPED;
    }
    return WORK_DONE;
}

/* Keep each hash once. Returns their number, or WORK_STOPPED. */
static ptrdiff_t keep_distinct(Workspace *work, size_t places, size_t count)
{
    uint64_t *hashes = work->hashes, *table = work->table;
    size_t found = 0, zeros = 0;
    if (clear_table(work, places))
        return WORK_STOPPED;
    for (size_t i = 0; i < count; i++) {
        uint64_t hash = hashes[i];
        if (is_stopped_at(work, i))
            return WORK_STOPPED;
        size_t place = find(table, places, hash);
        if (place == FAR) {
            memmove(hashes + found, hashes + i, (count - i) * sizeof *hashes);
            return sort_distinct(work, found + count - i);
        }
        size_t fresh = hash ? !table[place] : !zeros++;
        table[place] = hash; /* a hash of zero leaves the place empty */
        hashes[found] = hash;
        found += fresh;
    }
    return (ptrdiff_t)found;
}

/* The shingles of a text: `width` tokens each, without the `gap` after the last one. */
typedef struct {
    size_t count, width, gap;
} Shingles;

static inline size_t shingle_length(const Workspace *work, const Shingles *all, size_t i)
{
    return work->starts[i + all->width] - all->gap - work->starts[i];
}

/* Compare the i-th and the j-th shingle, by length and then by bytes: below 0, 0 or above. */
static int compare_shingles(const Workspace *work, const Shingles *all, size_t i, size_t j)
{
    size_t left = shingle_length(work, all, i), right = shingle_length(work, all, j);
    if (left != right)
        return left < right ? -1 : 1;
    return memcmp(work->text + work->starts[i], work->text + work->starts[j], left);
}

/* Test two shingles for equality, without a call: most shingles of a bag are a few bytes. Reads up to 7
   bytes past the end. */
static inline int is_same_shingle(const Workspace *work, const Shingles *all, size_t i, size_t j)
{
    const uint8_t *left = work->text + work->starts[i], *right = work->text + work->starts[j];
    size_t rest = shingle_length(work, all, i);
    if (rest != shingle_length(work, all, j))
        return 0;
    for (; rest > 8; rest -= 8, left += 8, right += 8)
        if (load64(left) != load64(right))
            return 0;
    return !low_bytes(load64(left) ^ load64(right), rest);
}

static inline void hash_repetition(Workspace *work, const Shingles *all, size_t i, size_t times)
{
    work->hashes[i] =
        murmur3(work->text + work->starts[i], shingle_length(work, all, i), (uint32_t)times);
}

/* Sort the numbers of n shingles by their bytes, stably; `other` has the same room. Returns the array that
   holds them then, numbers or other, or NULL if the work was stopped. */
static uint64_t *sort_by_bytes(const Workspace *work, const Shingles *all, uint64_t *numbers,
                               uint64_t *other, size_t n)
{
    for (size_t half = 1; half < n; half *= 2) {
        for (size_t begin = 0; begin < n; begin += 2 * half) {
            size_t middle = begin + half < n ? begin + half : n;
            size_t end = middle + half < n ? middle + half : n, left = begin, right = middle;
            for (size_t to = begin; to < end; to++) {
                if (!(to & 0xFF) && is_stopped(work->listener))
                    return NULL;
                int is_left =
                    right == end
                    || (left < middle
                        && compare_shingles(work, all, numbers[left], numbers[right]) <= 0);
                other[to] = numbers[is_left ? left++ : right++];
            }
        }
        uint64_t *sorted = other;
        other = numbers;
        numbers = sorted;
    }
    return numbers;
}

/* Like hash_repetitions(), but by sorting, for shingles whose hashes collide in the table or are equal. The
   table and `seen` have at least 2 places for each shingle. */
static int sort_repetitions(Workspace *work, const Shingles *all)
{
    uint64_t *items = work->table, *other = (uint64_t *)work->seen;
    if (hash_slices(work, all->count, all->width, all->gap))
        return WORK_STOPPED;
    for (size_t i = 0; i < all->count; i++) {
        items[2 * i] = work->hashes[i];
        items[2 * i + 1] = i;
    }
    if (sort_items(work, items, other, all->count, 2))
        return WORK_STOPPED;
    for (size_t begin = 0, end; begin < all->count; begin = end) {
        int alike = 1;
        for (end = begin; end < all->count && items[2 * end] == items[2 * begin]; end++) {
            if (!(end & 0xFF) && is_stopped(work->listener))
                return WORK_STOPPED;
            other[end - begin] = items[2 * end + 1];
            alike = alike && !compare_shingles(work, all, other[0], other[end - begin]);
        }
        size_t n = end - begin, times = 0;
        const uint64_t *numbers = alike ? other : sort_by_bytes(work, all, other, other + n, n);
        if (!numbers)
            return WORK_STOPPED;
        for (size_t i = 1; i < n; i++) {
            if (!(i & 0xFF) && is_stopped(work->listener))
                return WORK_STOPPED;
            times = compare_shingles(work, all, numbers[i - 1], numbers[i]) ? 0 : times + 1;
            if (times)
                hash_repetition(work, all, numbers[i], times);
        }
    }
    return WORK_DONE;
}

/* Hash the i-th repetition of a shingle again, with seed i, so that it is an element of its own. Two
   shingles with one hash, which only chosen words have, are counted separately. */
static int hash_repetitions(Workspace *work, size_t places, const Shingles *all)
{
    uint64_t *table = work->table;
    Seen zero = {0};
    if (clear_table(work, places))
        return WORK_STOPPED;
    for (size_t i = 0; i < all->count; i++) {
        uint64_t hash = work->hashes[i];
        if (!(i & 0xFFF) && i && is_stopped(work->listener))
            return WORK_STOPPED;
        size_t place = find(table, places, hash);
        if (place == FAR || i > UINT32_MAX)
            return sort_repetitions(work, all);
        Seen *seen = hash ? &work->seen[place] : &zero;
        if (hash ? !table[place] : !zero.times) {
            table[place] = hash;
            seen->times = 1;
        } else if (is_same_shingle(work, all, seen->last, i)) {
            hash_repetition(work, all, i, seen->times++);
        } else {
            return sort_repetitions(work, all);
        }
        seen->last = (uint32_t)i;
    }
    return WORK_DONE;
}

/* Bytes hashed, and shingles, between two checks for signals. */
#define BYTES_AT_ONCE ((size_t)1 << 28)

int hash_slices(Workspace *work, size_t count, size_t width, size_t gap)
{
    for (size_t done = 0, many; done < count; done += many) {
        const size_t *starts = work->starts + done;
        many = count - done < AT_ONCE ? count - done : AT_ONCE;
        /* Every byte is in at most `width` shingles. */
        while (many > 1 && starts[many + width - 1] - starts[0] > BYTES_AT_ONCE / width)
            many /= 2;
        if (done && is_stopped(work->listener))
            return WORK_STOPPED;
        work->level->hash_shingles(work->hashes + done, work->text, starts, many, width, gap);
    }
    return WORK_DONE;
}

/* `gap` is the length of the separator after a shingle, which is not part of it. */
ptrdiff_t shingle_tokens(Workspace *work, size_t tokens, size_t gap, size_t k, int bag)
{
    size_t width = tokens > k ? k : tokens, count = tokens - width + 1;
    size_t places = table_places(count);
    if (reserve_hashes(work, count)
        || reserve(&work->table, &work->table_size, places, sizeof *work->table)
        || (bag && reserve(&work->seen, &work->seen_size, places, sizeof *work->seen)))
        return -1;
    /* All hashes first: they are independent of one another, and look-ups in between would stall them. */
    if (hash_slices(work, count, width, gap)
        || (bag && hash_repetitions(work, places, &(Shingles){count, width, gap})))
        return WORK_STOPPED;
    return keep_distinct(work, places, count);
}

ptrdiff_t count_shared(Workspace *left, size_t n_left, Workspace *right, size_t n_right)
{
    size_t places = table_places(n_left), common = 0;
    if (reserve(&left->table, &left->table_size, places, sizeof *left->table)
        || reserve(&right->table, &right->table_size, n_right, sizeof *right->table))
        return -1;
    uint64_t *table = left->table;
    if (clear_table(left, places))
        return WORK_STOPPED;
    int zero = 0, far = 0;
    for (size_t i = 0; i < n_left && !far; i++) {
        uint64_t hash = left->hashes[i];
        size_t place = find(table, places, hash);
        zero |= !hash;
        if (!(far = place == FAR))
            table[place] = hash;
    }
    for (size_t i = 0; i < n_right && !far; i++) {
        uint64_t hash = right->hashes[i];
        size_t place = find(table, places, hash);
        if (!(far = place == FAR))
            common += hash ? table[place] != 0 : (size_t)zero;
    }
    if (!far)
        return (ptrdiff_t)common;
    ptrdiff_t distinct_left = sort_distinct(left, n_left),
              distinct_right = sort_distinct(right, n_right);
    if (distinct_left < 0 || distinct_right < 0)
        return WORK_STOPPED;
    common = count_common(left->hashes, (size_t)distinct_left, right->hashes,
                          (size_t)distinct_right, left->listener);
    return common == NOT_COUNTED ? WORK_STOPPED : (ptrdiff_t)common;
}
