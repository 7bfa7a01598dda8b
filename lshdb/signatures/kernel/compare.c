/* Rows -> bucket keys (banding.py), and how much two sorted sets share. */

#include "hashing.h"
#include "kernel.h"

void bucket_keys(const uint32_t *rows, size_t n, size_t num_perm, size_t bands, size_t height,
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

size_t count_common(const uint64_t *left, size_t n_left, const uint64_t *right, size_t n_right)
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
