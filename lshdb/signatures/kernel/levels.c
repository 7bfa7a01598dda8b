/* The levels of instructions: plain C (with what every x86-64 offers), AVX2, AVX-512. */

#include "kernel.h"
#include "hashing.h"
#include "normalise.h"
#include "words.h"

#ifdef LSHDB_X86
#include <immintrin.h>
#endif

#define PRIME ((UINT64_C(1) << 61) - 1)

/* The slots of scheme universal that do not fill a vector, in plain 128-bit integers. With x below p,
   a x + b is at most (p - 1) p, so after one fold it is below 2 p, and subtracting p once is enough. */
static uint32_t universal_slot(const uint64_t *hashes, size_t n, uint64_t a, uint64_t b)
{
    uint32_t least = UINT32_MAX;
    for (size_t i = 0; i < n; i++) {
        uint64_t x = (hashes[i] & PRIME) + (hashes[i] >> 61);
        x = x >= PRIME ? x - PRIME : x;
        unsigned __int128 product = (unsigned __int128)a * x + b;
        uint64_t folded = ((uint64_t)product & PRIME) + (uint64_t)(product >> 61);
        folded = folded >= PRIME ? folded - PRIME : folded;
        least = (uint32_t)folded < least ? (uint32_t)folded : least;
    }
    return least;
}

#define TARGET
#define LANES 2
#define LEVEL(name) name##_plain
#ifdef LSHDB_X86
#define MULTIPLY(a, b) ((lanes)_mm_mul_epu32((__m128i)(a), (__m128i)(b)))
#else
#define MULTIPLY(a, b) ((lanes)(((a) & LOW_HALF) * ((b) & LOW_HALF)))
#endif
#include "lanes.h"
#undef TARGET
#undef LANES
#undef LEVEL
#undef MULTIPLY

static const Level plain = {
    .name = "plain",
    .lanes = 2,
    .split_words = split_words_plain,
    .mark_starts = mark_starts_plain,
    .collapse = collapse_plain,
    .take_ascii = take_ascii_plain,
    .hash_shingles = hash_shingles_plain,
    .throw_rounds = throw_rounds_plain,
    .universal = universal_plain,
    .count_equal = count_equal_plain,
    .count_differing = count_differing_plain,
};

#ifdef LSHDB_X86

#define TARGET __attribute__((target("avx2,popcnt,bmi,bmi2")))
#define LANES 4
#define LEVEL(name) name##_avx2
#define MULTIPLY(a, b) ((lanes)_mm256_mul_epu32((__m256i)(a), (__m256i)(b)))
#include "lanes.h"
#undef TARGET
#undef LANES
#undef LEVEL
#undef MULTIPLY

static const Level avx2 = {
    .name = "avx2",
    .lanes = 4,
    .split_words = split_words_avx2,
    .mark_starts = mark_starts_avx2,
    .collapse = collapse_avx2,
    .take_ascii = take_ascii_avx2,
    .hash_shingles = hash_shingles_avx2,
    .throw_rounds = throw_rounds_avx2,
    .universal = universal_avx2,
    .count_equal = count_equal_avx2,
    .count_differing = count_differing_avx2,
};

#define TARGET __attribute__((target("avx2,popcnt,bmi,bmi2,avx512f,avx512dq,avx512vl,avx512bw")))
#define LANES 8
#define LEVEL(name) name##_avx512
#define MULTIPLY(a, b) ((lanes)_mm512_mul_epu32((__m512i)(a), (__m512i)(b)))
#include "lanes.h"
#undef TARGET
#undef LANES
#undef LEVEL
#undef MULTIPLY

static const Level avx512 = {
    .name = "avx512",
    .lanes = 8,
    .split_words = split_words_avx2,
    .mark_starts = mark_starts_avx2,
    .collapse = collapse_avx2,
    .take_ascii = take_ascii_avx2,
    .hash_shingles = hash_shingles_avx512,
    .throw_rounds = throw_rounds_avx512,
    .universal = universal_avx512,
    .count_equal = count_equal_avx512,
    .count_differing = count_differing_avx512,
};

#endif

/* The level of that name, or for NULL the best level of this machine; NULL if the machine lacks it. */
const Level *find_level(const char *name)
{
#ifdef LSHDB_X86
    __builtin_cpu_init();
    int has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("popcnt")
                   && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
    if ((!name || !strcmp(name, avx512.name)) && has_avx2 && __builtin_cpu_supports("avx512f")
        && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")
        && __builtin_cpu_supports("avx512bw"))
        return &avx512;
    if ((!name || !strcmp(name, avx2.name)) && has_avx2)
        return &avx2;
#endif
    return !name || !strcmp(name, plain.name) ? &plain : NULL;
}
