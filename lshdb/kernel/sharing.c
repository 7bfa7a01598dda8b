/* Many sets of hashes, and which of them share values with another set (signatures/sharing.py). */

#include "kernel.h"

#include <stdlib.h>

/* Values looked up, or places filled, between two checks for signals. */
enum { SHARED_AT_ONCE = 1 << 20 };

static inline size_t bucket_of(uint64_t hash, int bits) { return (size_t)(hash >> (64 - bits)); }

/* A sort by counting. The counts and hashes may change under it, so every place is compared with the room. */
int table_sets(const uint64_t *hashes, size_t n, const int64_t *counts, size_t n_sets, int bits,
               uint32_t *starts, uint64_t *values, uint32_t *owners, const Listener *listener)
{
    size_t n_buckets = (size_t)1 << bits, set = 0, total = 0, untold = n;
    for (size_t i = 0; i < n_sets; i++) {
        if (counts[i] < 0 || (uint64_t)counts[i] > untold)
            return SHARING_CHANGED;
        untold -= (size_t)counts[i];
    }
    if (untold)
        return SHARING_CHANGED;
    for (size_t i = 0; i <= n_buckets; i++)
        starts[i] = 0;
    for (size_t i = 0; i < n; i++)
        starts[bucket_of(hashes[i], bits)]++;
    for (size_t i = 0; i <= n_buckets; i++) {
        size_t many = starts[i];
        starts[i] = (uint32_t)total;
        total += many;
    }
    int64_t left = n_sets ? counts[0] : 0;
    for (size_t i = 0; i < n; i++) {
        while (left <= 0 && set + 1 < n_sets)
            left = ((const volatile int64_t *)counts)[++set];
        left--;
        uint64_t hash = ((const volatile uint64_t *)hashes)[i];
        size_t place = starts[bucket_of(hash, bits)]++;
        if (place >= n)
            return SHARING_CHANGED;
        values[place] = hash;
        owners[place] = (uint32_t)set;
        if (i % SHARED_AT_ONCE == SHARED_AT_ONCE - 1 && is_stopped(listener))
            return WORK_STOPPED;
    }
    /* A bucket's start has become its end. */
    for (size_t i = n_buckets; i > 0; i--)
        starts[i] = starts[i - 1];
    starts[0] = 0;
    return WORK_DONE;
}

typedef struct {
    uint32_t *common, *touched; /* shared values of each set; the sets that share some */
    double *best;               /* a heap of the best levels, the worst of them first */
} Tally;

static int add_sharing(Sharing *found, int64_t probe, uint32_t set, uint32_t common)
{
    if (found->n == found->room) {
        size_t room = found->room + found->room / 2 + 1024, bytes;
        int64_t *moved = NULL;
        if (!__builtin_mul_overflow(room, 3 * sizeof *moved, &bytes))
            moved = realloc(found->triples, bytes);
        if (!moved)
            return WORK_MEMORY;
        found->triples = moved;
        found->room = room;
    }
    int64_t *triple = found->triples + 3 * found->n++;
    triple[0] = probe;
    triple[1] = set;
    triple[2] = common;
    return WORK_DONE;
}

/* Put a level where the worst of n was, or at the end, and restore the heap. */
static void sift_down(double *heap, size_t n, double level)
{
    size_t place = 0;
    for (size_t child = 1; child < n; child = 2 * place + 1) {
        if (child + 1 < n && heap[child + 1] < heap[child])
            child++;
        if (heap[child] >= level)
            break;
        heap[place] = heap[child];
        place = child;
    }
    heap[place] = level;
}

static void sift_up(double *heap, size_t place, double level)
{
    for (; place > 0 && heap[(place - 1) / 2] > level; place = (place - 1) / 2)
        heap[place] = heap[(place - 1) / 2];
    heap[place] = level;
}

static inline double level_of_sets(const SetTable *table, uint32_t set, uint32_t common,
                                   size_t size, int is_part)
{
    double either = (double)size;
    if (!is_part)
        either += (double)table->sizes[set] - common;
    return common / either;
}

/* Give the sets that one probe shares values with: those at a level from `least` on and below `below`
   that are no worse than the `most`-th best. */
static int give_best(const SetTable *table, const Wish *wish, Tally *tally, size_t n, size_t size,
                     int64_t probe, Sharing *found)
{
    double least = wish->least;
    size_t held = 0;
    for (size_t i = 0; i < n && wish->most < n; i++) {
        uint32_t set = tally->touched[i];
        double level = level_of_sets(table, set, tally->common[set], size, wish->is_part);
        if (level >= wish->below)
            continue;
        if (held < wish->most)
            sift_up(tally->best, held++, level);
        else if (level > tally->best[0])
            sift_down(tally->best, held, level);
    }
    if (held && held == wish->most && tally->best[0] > least)
        least = tally->best[0];
    int done = WORK_DONE;
    for (size_t i = 0; i < n; i++) {
        uint32_t set = tally->touched[i], common = tally->common[set];
        tally->common[set] = 0;
        double level = level_of_sets(table, set, common, size, wish->is_part);
        if (done == WORK_DONE && level >= least && level < wish->below)
            done = add_sharing(found, probe, set, common);
    }
    return done;
}

static int find_all(const SetTable *table, const uint64_t *hashes, size_t n, const int64_t *counts,
                    size_t n_probes, const Wish *wish, Tally *tally, Sharing *found,
                    const Listener *listener)
{
    size_t first = 0, unheard = 0;
    for (size_t probe = 0; probe < n_probes; probe++) {
        int64_t size = ((const volatile int64_t *)counts)[probe];
        if (size < 0 || (uint64_t)size > n - first)
            return SHARING_CHANGED;
        size_t n_touched = 0;
        for (size_t i = first; i < first + (size_t)size; i++) {
            uint64_t hash = hashes[i];
            const volatile uint32_t *bucket = table->starts + bucket_of(hash, table->bits);
            size_t place = bucket[0], end = bucket[1];
            if (end > table->n)
                return SHARING_CHANGED;
            unheard += 1 + (end > place ? end - place : 0);
            if (unheard >= SHARED_AT_ONCE) {
                unheard = 0;
                if (is_stopped(listener))
                    return WORK_STOPPED;
            }
            for (; place < end; place++) {
                if (table->values[place] != hash)
                    continue;
                uint32_t set = ((const volatile uint32_t *)table->owners)[place];
                if (set >= table->n_sets)
                    return SHARING_CHANGED;
                if (tally->common[set]++)
                    continue;
                if (n_touched == table->n_sets) /* a count has overflown */
                    return SHARING_CHANGED;
                tally->touched[n_touched++] = set;
            }
        }
        first += (size_t)size;
        int done = give_best(table, wish, tally, n_touched, (size_t)size, (int64_t)probe, found);
        if (done != WORK_DONE)
            return done;
    }
    return WORK_DONE;
}

int find_sharing(const SetTable *table, const uint64_t *hashes, size_t n, const int64_t *counts,
                 size_t n_probes, const Wish *wish, Sharing *found, const Listener *listener)
{
    size_t n_best = wish->most < table->n_sets ? wish->most : table->n_sets;
    Tally tally = {calloc(table->n_sets + 1, sizeof *tally.common),
                   malloc((table->n_sets + 1) * sizeof *tally.touched),
                   malloc((n_best + 1) * sizeof *tally.best)};
    int done = WORK_MEMORY;
    if (tally.common && tally.touched && tally.best)
        done = find_all(table, hashes, n, counts, n_probes, wish, &tally, found, listener);
    free(tally.common);
    free(tally.touched);
    free(tally.best);
    return done;
}
