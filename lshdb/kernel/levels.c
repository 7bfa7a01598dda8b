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

/* The equal bits of a query and each of n rows. */
static void count_bits_of_plain(const uint16_t *query, const uint16_t *rows, size_t n, size_t words,
                                uint16_t *counts)
{
    for (size_t i = 0; i < n; i++, rows += words)
        counts[i] = (uint16_t)(WORD_BITS * words - count_differing_plain(query, rows, words));
}

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
    .count_tabled = count_tabled_plain,
    .count_equal = count_equal_plain,
    .count_differing = count_differing_plain,
    .count_slots_of = count_slots_of_plain,
    .count_bits_of = count_bits_of_plain,
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

/* Bytes of a row that are asked for ahead of their use: a row is done before the next has come. */
#define AHEAD 4096

/* Bits of 32 bytes at once, by a table of half bytes (Mula, Kurz, Lemire, "Faster population counts using
   AVX2 instructions", 2018). A sum of at most 31 times 8 fits into a byte. */
__attribute__((target("avx2,popcnt,bmi,bmi2"))) static void
count_bits_of_avx2(const uint16_t *query, const uint16_t *rows, size_t n, size_t words,
                   uint16_t *counts)
{
    const __m256i low = _mm256_set1_epi8(15), zero = _mm256_setzero_si256();
    const __m256i table =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4));
    for (size_t i = 0; i < n; i++, rows += words) {
        __m256i sums = zero;
        size_t j = 0;
        while (j + 16 <= words) {
            size_t end = words - j > 31 * 16 ? j + 31 * 16 : words;
            __m256i bytes = zero;
            for (; j + 16 <= end; j += 16) {
                __builtin_prefetch((const void *)((uintptr_t)(rows + j) + AHEAD));
                __m256i bits = _mm256_xor_si256(_mm256_loadu_si256((const __m256i *)(query + j)),
                                                _mm256_loadu_si256((const __m256i *)(rows + j)));
                __m256i high = _mm256_and_si256(_mm256_srli_epi16(bits, 4), low);
                bits = _mm256_shuffle_epi8(table, _mm256_and_si256(bits, low));
                bytes = _mm256_add_epi8(bytes, bits);
                bytes = _mm256_add_epi8(bytes, _mm256_shuffle_epi8(table, high));
            }
            sums = _mm256_add_epi64(sums, _mm256_sad_epu8(bytes, zero));
        }
        __m128i half =
            _mm_add_epi64(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
        uint32_t differing =
            (uint32_t)(_mm_cvtsi128_si64(half) + _mm_cvtsi128_si64(_mm_unpackhi_epi64(half, half)));
        for (; j < words; j++)
            differing += (uint32_t)__builtin_popcount((unsigned)(query[j] ^ rows[j]));
        counts[i] = (uint16_t)(WORD_BITS * words - differing);
    }
}

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
    .count_tabled = count_tabled_avx2,
    .count_equal = count_equal_avx2,
    .count_differing = count_differing_avx2,
    .count_slots_of = count_slots_of_avx2,
    .count_bits_of = count_bits_of_avx2,
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
    .count_tabled = count_tabled_avx512,
    .count_equal = count_equal_avx512,
    .count_differing = count_differing_avx512,
    .count_slots_of = count_slots_of_avx512,
    .count_bits_of = count_bits_of_avx2,
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
