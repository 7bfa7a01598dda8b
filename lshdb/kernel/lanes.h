/* The inner loops, written once for any width of vector. levels.c includes this file for each level,
   with LEVEL(name) to name its functions, TARGET, LANES and MULTIPLY set. MULTIPLY multiplies the
   low halves of two vectors of 64-bit lanes. */

typedef uint64_t LEVEL(lanes) __attribute__((vector_size(8 * LANES), aligned(8), may_alias));
typedef int64_t LEVEL(signed_lanes) __attribute__((vector_size(8 * LANES)));
#define lanes LEVEL(lanes)
#define signed_lanes LEVEL(signed_lanes)

#define LOW_HALF UINT64_C(0xFFFFFFFF)

/* z * constant modulo 2^64, from three products of halves. */
#define TIMES(z, constant)                                                                         \
    (MULTIPLY(z, all((constant) & LOW_HALF))                                                       \
     + ((MULTIPLY((z) >> 32, all((constant) & LOW_HALF)) + MULTIPLY(z, all((constant) >> 32)))     \
        << 32))

#define all(number) ((lanes){0} + (uint64_t)(number))

/* One throw per lane, from z = hash xor key, both folded, so that the first step of mix64 is done. A slot
   keeps the smallest round and value, without a branch, as the prediction would be wrong half of the
   time. If num_perm is a power of two (`shift` is then the number of other bits), the slot is the top
   bits, which the last step of mix64 does not change. */
#define THROW(z, rank)                                                                             \
    do {                                                                                           \
        z = TIMES(z, MIX_FIRST);                                                                   \
        z ^= z >> 27;                                                                              \
        z = TIMES(z, MIX_SECOND);                                                                  \
        lanes mixed = z ^ (z >> 31);                                                               \
        lanes bins = shift ? z >> shift : MULTIPLY(mixed >> 32, all(num_perm)) >> 32;              \
        lanes values = (mixed & LOW_HALF) | (rank);                                                \
        for (int lane = 0; lane < LANES; lane++) {                                                 \
            uint64_t bin = bins[lane], value = values[lane], old = slots[bin];                     \
            slots[bin] = value < old ? value : old;                                                \
        }                                                                                          \
    } while (0)

TARGET static inline void LEVEL(throw)(uint64_t *restrict slots, const uint64_t *restrict hashes,
                                       size_t n, const uint64_t *restrict keys, size_t first,
                                       size_t last, uint32_t num_perm, int shift, int small)
{
    if (!small) {
        for (size_t round = first; round < last; round++) {
            lanes key = all(fold(keys[round])), rank = all((uint64_t)round << 32);
            for (size_t i = 0; i < n; i += LANES) {
                lanes z = *(const lanes *)(hashes + i) ^ key;
                THROW(z, rank);
            }
        }
        return;
    }
    lanes steps = {0};
    for (int lane = 0; lane < LANES; lane++)
        steps[lane] = (uint64_t)lane << 32;
    for (size_t round = first; round < last; round += LANES) {
        lanes key = *(const lanes *)(keys + round), rank = steps + ((uint64_t)round << 32);
        key ^= key >> 30;
        for (size_t i = 0; i < n; i++) {
            lanes z = key ^ all(hashes[i]);
            THROW(z, rank);
        }
    }
}

/* Throw rounds first to last - 1; return whether a slot is still empty. The hashes are folded. A large
   set is processed one vector of hashes at a time and reads up to LANES - 1 hashes more than n, which
   must be repeats. A small set is processed one vector of rounds at a time, so that nothing is wasted on
   repeats; then last - first must be a multiple of LANES. */
TARGET static int LEVEL(throw_rounds)(uint64_t *slots, const uint64_t *hashes, size_t n,
                                      const uint64_t *keys, size_t first, size_t last,
                                      uint32_t num_perm, int small)
{
    int shift = num_perm > 1 && !(num_perm & (num_perm - 1)) ? 32 + __builtin_clz(num_perm - 1) : 0;
    if (shift && small)
        LEVEL(throw)(slots, hashes, n, keys, first, last, num_perm, shift, 1);
    else if (shift)
        LEVEL(throw)(slots, hashes, n, keys, first, last, num_perm, shift, 0);
    else
        LEVEL(throw)(slots, hashes, n, keys, first, last, num_perm, 0, small);
    uint64_t empty = 0;
    for (uint32_t j = 0; j < num_perm; j++)
        empty |= slots[j] >> 63;
    return empty != 0;
}

/* ((a x + b) mod p) mod 2^32 with p = 2^61 - 1, a vector of slots at a time. With a = a1 2^32 + a0 and
   x alike, a x = a1 x1 2^64 + (a0 x1 + a1 x0) 2^32 + a0 x0, and 2^61 is 1 modulo p. No sum here
   reaches 2^64. After one fold the sum is below 2 p, and the last step subtracts p, which adds one to the
   low half. The constants are num_perm values of a, then num_perm values of b. */
TARGET static void LEVEL(universal)(const uint64_t *restrict hashes, size_t n, uint32_t num_perm,
                                    const uint64_t *restrict constants, uint32_t *restrict slots)
{
    const uint64_t prime = (UINT64_C(1) << 61) - 1;
    uint32_t j = 0;
    for (; j + LANES <= num_perm; j += LANES) {
        lanes a0 = *(const lanes *)(constants + j), b = *(const lanes *)(constants + num_perm + j);
        lanes a1 = a0 >> 32, least = all(LOW_HALF);
        for (size_t i = 0; i < n; i++) {
            uint64_t x = (hashes[i] & prime) + (hashes[i] >> 61);
            lanes x0 = all(x), x1 = all(x >> 32);
            lanes low = MULTIPLY(a0, x0), high = MULTIPLY(a1, x1);
            lanes middle = MULTIPLY(a0, x1) + MULTIPLY(a1, x0);
            lanes sum = (low & prime) + (low >> 61) + (middle >> 29)
                        + ((middle & ((UINT64_C(1) << 29) - 1)) << 32) + b;
            sum = (sum & prime) + (sum >> 61) + (high << 3);
            sum = (sum & prime) + (sum >> 61);
            sum = (sum + ((sum + 1) >> 61)) & LOW_HALF;
            lanes smaller = (lanes)((signed_lanes)sum < (signed_lanes)least);
            least = (sum & smaller) | (least & ~smaller);
        }
        for (int lane = 0; lane < LANES; lane++)
            slots[j + lane] = (uint32_t)least[lane];
    }
    for (; j < num_perm; j++)
        slots[j] = universal_slot(hashes, n, constants[j], constants[num_perm + j]);
}

/* Hash the shingles of `width` tokens, each without the `gap` after it. */
TARGET static void LEVEL(hash_shingles)(uint64_t *restrict hashes, const uint8_t *bytes,
                                        const size_t *starts, size_t count, size_t width,
                                        size_t gap)
{
    for (size_t i = 0; i < count; i++)
        hashes[i] = murmur3(bytes + starts[i], starts[i + width] - gap - starts[i], 0);
}

/* A sum of up to 4,096 slots fits into 16 bits, so as many are counted at once as are compared. */
TARGET static uint32_t LEVEL(count_equal)(const uint16_t *left, const uint16_t *right,
                                          size_t num_perm)
{
    uint16_t equal = 0;
    for (size_t j = 0; j < num_perm; j++)
        equal += left[j] == right[j];
    return equal;
}

/* Count the bits in which two rows of words differ. */
TARGET static uint32_t LEVEL(count_differing)(const uint16_t *left, const uint16_t *right,
                                              size_t words)
{
    uint32_t differing = 0;
    size_t j = 0;
    for (; j + 4 <= words; j += 4) {
        uint64_t a, b;
        memcpy(&a, left + j, sizeof a);
        memcpy(&b, right + j, sizeof b);
        differing += (uint32_t)__builtin_popcountll(a ^ b);
    }
    for (; j < words; j++)
        differing += (uint32_t)__builtin_popcount((unsigned)(left[j] ^ right[j]));
    return differing;
}

/* The equal slots of a query and each of n rows. */
TARGET static void LEVEL(count_slots_of)(const uint16_t *query, const uint16_t *rows, size_t n,
                                         size_t words, uint16_t *counts)
{
    for (size_t i = 0; i < n; i++, rows += words)
        counts[i] = (uint16_t)LEVEL(count_equal)(query, rows, words);
}

/* Of n values, how many are in a table: each is compared with all of its cell. */
TARGET static size_t LEVEL(count_tabled)(const uint64_t *cells, int shift, const uint64_t *values,
                                         size_t n)
{
    lanes found = {0};
    for (size_t i = 0; i < n; i++) {
        const uint64_t *cell = cells + CELL_VALUES * cell_of_value(values[i], shift);
        for (int part = 0; part < CELL_VALUES; part += LANES)
            found -= (lanes)(*(const lanes *)(cell + part) == all(values[i]));
    }
    uint64_t sum = 0;
    for (int lane = 0; lane < LANES; lane++)
        sum += found[lane];
    return sum;
}

#undef lanes
#undef signed_lanes
#undef LOW_HALF
#undef TIMES
#undef all
#undef THROW
