/* Signature rows of hashes, by scheme fss or universal (minhash.py).

   fss: throws are made in rounds, and a value carries its round above its 32 bits. So neither the order of
   the throws nor rounds past the one that fills the last slot make a difference. */

#include <stdlib.h>

#include "hashing.h"
#include "kernel.h"

/* Sets smaller than this are thrown one vector of rounds at a time, others one vector of elements. */
#define SMALL 24

/* Throws before the first check for empty slots, and between checks. Filling K slots takes K log K throws,
   5.4 K for 128 slots. */
#define FIRST_THROWS(num_perm) (4 * (size_t)(num_perm))
#define MORE_THROWS(num_perm) ((size_t)(num_perm) / 2)

/* Hashes times slots between two checks for signals. */
#define UNIVERSAL_STEPS ((size_t)1 << 24)

static int sketch_fss(Workspace *work, uint64_t *hashes, size_t n, uint32_t num_perm,
                      const uint64_t *keys, uint16_t *row)
{
    const Level *level = work->level;
    uint64_t *slots = work->slots;
    if (!slots && !(slots = work->slots = malloc(num_perm * sizeof *slots)))
        return WORK_MEMORY;
    memset(slots, 0xFF, num_perm * sizeof *slots);
    for (size_t i = 0; i < n; i++)
        hashes[i] = fold(hashes[i]);
    for (size_t i = 0; i < 8; i++) /* repeats make no difference, and fill the last vector */
        hashes[n + i] = hashes[0];
    int empty = 1;
    size_t throws = FIRST_THROWS(num_perm), step = n < SMALL ? level->lanes : 1;
    for (size_t round = 0, last; empty && round < num_perm; round = last) {
        last = round + (throws / n + step) / step * step;
        last = last < num_perm ? last : num_perm;
        int small = n < SMALL && (last - round) % step == 0;
        if (round && is_stopped(work->listener))
            return WORK_STOPPED;
        empty = level->throw_rounds(slots, hashes, n, keys, round, last, num_perm, small);
        throws = MORE_THROWS(num_perm);
    }
    for (uint32_t j = 0; empty && j < num_perm; j++) {
        if (slots[j] != UINT64_MAX)
            continue;
        if (is_stopped(work->listener))
            return WORK_STOPPED;
        for (size_t i = 0; i < n; i++) {
            uint64_t value = (uint32_t)mix_folded(hashes[i] ^ fold(keys[num_perm + j]));
            slots[j] = value < slots[j] ? value : slots[j];
        }
    }
    for (uint32_t j = 0; j < num_perm; j++)
        row[j] = (uint16_t)slots[j];
    return WORK_DONE;
}

int take_universal(const Level *level, const Listener *listener, const uint64_t *hashes, size_t n,
                   uint32_t num_perm, const uint64_t *constants, uint32_t *least)
{
    uint32_t slots[MAX_NUM_PERM];
    size_t slice = UNIVERSAL_STEPS / num_perm;
    for (size_t begin = 0; begin < n; begin += slice) {
        if (begin && is_stopped(listener))
            return WORK_STOPPED;
        level->universal(hashes + begin, n - begin < slice ? n - begin : slice, num_perm, constants,
                         slots);
        for (uint32_t j = 0; j < num_perm; j++)
            least[j] = slots[j] < least[j] ? slots[j] : least[j];
    }
    return WORK_DONE;
}

int sketch(Workspace *work, int scheme, uint64_t *hashes, size_t n, uint32_t num_perm,
           const uint64_t *constants, uint16_t *row)
{
    if (scheme == SCHEME_FSS)
        return sketch_fss(work, hashes, n, num_perm, constants, row);
    uint32_t least[MAX_NUM_PERM];
    memset(least, 0xFF, num_perm * sizeof *least);
    int done = take_universal(work->level, work->listener, hashes, n, num_perm, constants, least);
    for (uint32_t j = 0; done == WORK_DONE && j < num_perm; j++)
        row[j] = (uint16_t)least[j];
    return done;
}
