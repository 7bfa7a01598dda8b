/* The Python interface of candidate pairs: the pairs of buckets' members that agree first in the band of
   their bucket, large buckets aside. A pair that shares many buckets comes again and again: that it agreed
   before is seen by its first bands, sooner than a table of the pairs that were found is looked up. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "binding.h"
#include "rows.h"

/* Pairs between two checks for signals. */
#define PAIRS_AT_ONCE 65536

/* A pair of members, and how far their rows agree. */
typedef struct {
    int64_t left, right, equal, matched;
} Agreeing;

/* Rows that were read last, each in the one place that the hash of its number gives it, and a spare one.

   Members of a bucket meet again and again, and buckets of one band share none: a cache that the
   processor's own holds is enough. Larger ones cost more in fresh pages than the reads they save. */
typedef struct {
    Rows source;
    uint16_t *words;
    uint64_t *numbers; /* of a row, plus 1; 0 is an empty place */
    size_t places;
} Cache;

enum { CACHE_BYTES = 1 << 21, LEAST_PLACES = 256 };

typedef struct {
    const Level *level;
    Cache cache;
    size_t bands, height;
    int is_bits;
    const volatile int64_t *hot; /* sorted keys of buckets that do not count */
    size_t n_hot;
    const uint8_t *suffices; /* by the number of equal slots */
} Asked;

typedef struct {
    Agreeing *pairs;
    size_t n, room;
} Answer;

static int begin_cache(Cache *cache)
{
    size_t row_bytes = cache->source.row_words * sizeof *cache->words;
    if (cache->source.words)
        return WORK_DONE;
    for (cache->places = LEAST_PLACES; 2 * cache->places * row_bytes <= CACHE_BYTES;)
        cache->places *= 2;
    cache->words = malloc((cache->places + 1) * row_bytes);
    cache->numbers = calloc(cache->places, sizeof *cache->numbers);
    return cache->words && cache->numbers ? WORK_DONE : WORK_MEMORY;
}

static void end_cache(Cache *cache)
{
    free(cache->words);
    free(cache->numbers);
}

/* The row of a member, which leaves the row `kept` where it is; NULL with a failure. */
static const uint16_t *cached_row(Cache *cache, int64_t id, const uint16_t *kept, int *failure)
{
    const Rows *source = &cache->source;
    if (id < 0 || id >= source->n) {
        *failure = ROW_OUTSIDE;
        return NULL;
    }
    if (source->words)
        return source->words + (size_t)id * source->row_words;
    uint64_t number = (uint64_t)id + 1;
    size_t place = (size_t)((number * SPREAD) >> 20) & (cache->places - 1);
    uint16_t *held = cache->words + place * source->row_words;
    if (cache->numbers[place] == number)
        return held;
    int is_kept = held == kept;
    if (is_kept)
        held = cache->words + cache->places * source->row_words;
    else
        cache->numbers[place] = 0;
    const uint16_t *row = row_at(source, id, held, failure);
    if (*failure)
        return NULL;
    if (!is_kept)
        cache->numbers[place] = number;
    return row;
}

static int agrees(const Asked *asked, const uint16_t *one, const uint16_t *other, size_t band)
{
    size_t begin = band * asked->height;
    return asked->is_bits ? !bits_differ(one, other, begin, asked->height)
                          : !slots_differ(one + begin, other + begin, asked->height);
}

/* Whether a bucket does not count. */
static int is_hot(const Asked *asked, int64_t key)
{
    size_t low = 0, high = asked->n_hot;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int64_t found = asked->hot[middle];
        if (found == key)
            return 1;
        if (found < key)
            low = middle + 1;
        else
            high = middle;
    }
    return 0;
}

/* Whether two rows agree in a band before this one whose bucket counts, or not in this one. */
static int is_elsewhere(const Asked *asked, const uint16_t *one, const uint16_t *other, size_t band)
{
    int slot_bits = asked->is_bits ? 1 : WORD_BITS;
    if (band >= asked->bands || !agrees(asked, one, other, band))
        return 1;
    for (size_t before = 0; before < band; before++)
        if (agrees(asked, one, other, before)
            && !is_hot(asked, (int64_t)bucket_key(one, slot_bits, before, asked->height)))
            return 1;
    return 0;
}

static int take_pair(Asked *asked, Answer *answer, int64_t left, int64_t right, int64_t band)
{
    int failure = 0;
    const uint16_t *one = cached_row(&asked->cache, left, NULL, &failure);
    const uint16_t *other = one ? cached_row(&asked->cache, right, one, &failure) : NULL;
    if (!other)
        return failure;
    if (band >= 0 && is_elsewhere(asked, one, other, (size_t)band))
        return WORK_DONE;
    int32_t equal, matched, first;
    (asked->is_bits ? compare_bits : compare_rows)(asked->level, one, other,
                                                   asked->cache.source.row_words, asked->bands,
                                                   asked->height, &equal, &matched, &first);
    if (!asked->suffices[equal])
        return WORK_DONE;
    if (answer->n == answer->room) {
        size_t room = 2 * answer->room + 1024;
        Agreeing *moved = realloc(answer->pairs, room * sizeof *moved);
        if (!moved)
            return WORK_MEMORY;
        answer->pairs = moved;
        answer->room = room;
    }
    answer->pairs[answer->n++] = (Agreeing){left, right, equal, matched};
    return WORK_DONE;
}

/* Buckets one after the other: their bands, sizes and members, and which members are marked. */
typedef struct {
    const volatile int64_t *bands, *sizes, *members;
    const volatile uint8_t *marks;
    size_t n, n_members;
} Buckets;

/* The places of the marked members from `begin` on; how many. */
static size_t take_marked(const Buckets *buckets, size_t begin, size_t end, size_t *marked)
{
    size_t n = 0;
    for (size_t place = begin; place < end; place++)
        if (buckets->marks[place])
            marked[n++] = place;
    return n;
}

/* Every number is read once before it is used: another thread may change it. */
static int take_buckets(Asked *asked, const Buckets *buckets, size_t *marked, Answer *answer,
                        const Listener *listener)
{
    size_t begin = 0, unheard = 0;
    for (size_t i = 0; i < buckets->n; i++) {
        int64_t size = buckets->sizes[i], band = buckets->bands[i];
        if (size < 0 || (uint64_t)size > buckets->n_members - begin || band < -1)
            return ROW_OUTSIDE;
        size_t end = begin + (size_t)size, next = 0;
        size_t n_marked = take_marked(buckets, begin, end, marked);
        for (size_t one = begin; one < end; one++) {
            int64_t left = buckets->members[one];
            int is_marked = next < n_marked && marked[next] == one;
            next += (size_t)is_marked;
            /* of a marked member all behind it, of another the marked ones */
            size_t partners = is_marked ? end - one - 1 : n_marked - next;
            for (size_t at = 0; at < partners; at++) {
                size_t other = is_marked ? one + 1 + at : marked[next + at];
                int done = take_pair(asked, answer, left, buckets->members[other], band);
                if (done != WORK_DONE)
                    return done;
            }
            unheard += partners + 1;
            if (unheard >= PAIRS_AT_ONCE) {
                unheard = 0;
                if (is_stopped(listener))
                    return WORK_STOPPED;
            }
        }
        begin = end;
    }
    return WORK_DONE;
}

PyDoc_STRVAR(agreeing_pairs_doc,
"agreeing_pairs(bands, sizes, members, marks, source, offset, n_rows, words, n_bands, height,\n"
"    is_bits, hot, suffices)\n"
"--\n\n"
"Compare each two members of each bucket: bands and sizes (n of int64), then members (int64), one bucket\n"
"after the other, and a byte for each that is not 0 if it is marked; of each two, one is. Returns, in order,\n"
"the pairs that agree in the band of the bucket and in none before it, except where their bucket is among\n"
"the sorted keys hot (int64, or None), or all pairs where the bucket's band is -1, and for whose number of\n"
"equal slots suffices (one byte for each number) is not 0: a bytearray of left, right, equal slots and\n"
"agreeing bands (int64). The rows are a buffer, or lie in the file of a descriptor from `offset` on. Raises IndexError for a member\n"
"outside the n_rows rows, OSError if the file cannot be read, ValueError if it is too short.");

static PyObject *py_agreeing_pairs(PyObject *module, PyObject *args)
{
    Py_ssize_t words, n_bands, height;
    long long offset, n_rows;
    int is_bits;
    PyObject *source, *large;
    HELD Py_buffer bands = {0}, sizes = {0}, members = {0}, held = {0};
    HELD Py_buffer suffices = {0}, marks = {0}, hot = {0};
    if (!PyArg_ParseTuple(args, "y*y*y*y*OLLnnnpOy*", &bands, &sizes, &members, &marks, &source,
                          &offset, &n_rows, &words, &n_bands, &height, &is_bits, &large, &suffices)
        || !is_banding(words, is_bits ? 1 : WORD_BITS, n_bands, height))
        return NULL;
    Py_ssize_t n = sizes.len / 8, m = members.len / 8;
    if (!is_length(&bands, n, 8, "bands") || !is_length(&sizes, n, 8, "sizes")
        || !is_length(&members, m, 8, "members") || !is_length(&marks, m, 1, "marks")
        || !is_length(&suffices, words * (is_bits ? WORD_BITS : 1) + 1, 1, "suffices"))
        return NULL;
    Asked asked = {.level = level_of(module),
                   .cache.source = {NULL, -1, offset, n_rows, (size_t)words},
                   .bands = (size_t)n_bands,
                   .height = (size_t)height,
                   .is_bits = is_bits,
                   .suffices = suffices.buf};
    if (large != Py_None) {
        if (PyObject_GetBuffer(large, &hot, PyBUF_SIMPLE)
            || !is_length(&hot, hot.len / 8, 8, "hot"))
            return NULL;
        asked.hot = hot.buf;
        asked.n_hot = (size_t)hot.len / 8;
    }
    if (!take_source(source, &asked.cache.source, &held))
        return NULL;
    Buckets buckets = {bands.buf, sizes.buf, members.buf, marks.buf, (size_t)n, (size_t)m};
    Answer answer = {0};
    Hearing hearing;
    Listener listener = listen_with(&hearing, module);
    hearing.released = PyEval_SaveThread();
    size_t *marked = malloc(((size_t)m + 1) * sizeof *marked);
    int done = marked ? begin_cache(&asked.cache) : WORK_MEMORY;
    if (done == WORK_DONE)
        done = take_buckets(&asked, &buckets, marked, &answer, &listener);
    int reason = errno;
    end_cache(&asked.cache);
    free(marked);
    PyEval_RestoreThread(hearing.released);
    PyObject *result = NULL;
    if (done == ROW_OUTSIDE)
        PyErr_SetString(PyExc_IndexError,
                        "a bucket is outside its members, or a member outside the rows");
    else if (done != WORK_DONE)
        say_row(done, reason);
    else
        result = PyByteArray_FromStringAndSize((const char *)answer.pairs,
                                               (Py_ssize_t)(answer.n * sizeof *answer.pairs));
    free(answer.pairs);
    return result;
}

PyMethodDef pair_methods[] = {
    {"agreeing_pairs", py_agreeing_pairs, METH_VARARGS, agreeing_pairs_doc},
    {NULL, NULL, 0, NULL},
};
