/* Texts between code points, as str holds them, and UTF-8; their characters that Unicode does not
   assign (shingling/normalise.py, count_unassigned). */

#include "texts.h"

#include <string.h>

#include "hashing.h"

#define HIGH_BITS UINT64_C(0x8080808080808080)

static inline uint32_t point_of(const Text *text, size_t i)
{
    return text->width == 1   ? ((const uint8_t *)text->points)[i]
           : text->width == 2 ? ((const uint16_t *)text->points)[i]
                              : ((const uint32_t *)text->points)[i];
}

size_t utf8_size(const Text *text)
{
    if (text->is_ascii)
        return text->length;
    size_t size = text->length, surrogates = 0;
    if (text->width == 1) {
        for (size_t i = 0; i < text->length; i++)
            size += ((const uint8_t *)text->points)[i] >> 7;
    } else if (text->width == 2) {
        const uint16_t *points = text->points;
        for (size_t i = 0; i < text->length; i++) {
            size += (size_t)(points[i] >= 0x80) + (points[i] >= 0x800);
            surrogates += (points[i] & 0xF800) == 0xD800;
        }
    } else {
        const uint32_t *points = text->points;
        for (size_t i = 0; i < text->length; i++) {
            size += (size_t)(points[i] >= 0x80) + (points[i] >= 0x800) + (points[i] >= 0x10000);
            surrogates += (points[i] & 0xFFFFF800) == 0xD800;
        }
    }
    return surrogates ? NOT_ENCODED : size;
}

void write_utf8(uint8_t *out, const Text *text)
{
    if (text->is_ascii) {
        memcpy(out, text->points, text->length);
        return;
    }
    for (size_t i = 0; i < text->length; i++) {
        uint32_t point = point_of(text, i);
        if (point < 0x80) {
            *out++ = (uint8_t)point;
        } else if (point < 0x800) {
            *out++ = (uint8_t)(0xC0 | point >> 6);
            *out++ = (uint8_t)(0x80 | (point & 0x3F));
        } else if (point < 0x10000) {
            *out++ = (uint8_t)(0xE0 | point >> 12);
            *out++ = (uint8_t)(0x80 | (point >> 6 & 0x3F));
            *out++ = (uint8_t)(0x80 | (point & 0x3F));
        } else {
            *out++ = (uint8_t)(0xF0 | point >> 18);
            *out++ = (uint8_t)(0x80 | (point >> 12 & 0x3F));
            *out++ = (uint8_t)(0x80 | (point >> 6 & 0x3F));
            *out++ = (uint8_t)(0x80 | (point & 0x3F));
        }
    }
}

int32_t count_unassigned(const uint8_t *text, size_t length, const uint8_t *kinds, size_t *at,
                         int64_t *count)
{
    size_t i = *at;
    while (i < length) {
        if (text[i] < 0x80) {
            i++;
            while (i + 8 <= length && !(load64(text + i) & HIGH_BITS))
                i += 8;
            continue;
        }
        size_t size = text[i] < 0xE0 ? 2 : text[i] < 0xF0 ? 3 : 4;
        if (i + size > length)
            break;
        uint32_t point = text[i] & (0x7FU >> size);
        for (size_t next = 1; next < size; next++)
            point = point << 6 | (text[i + next] & 0x3F);
        uint8_t kind = point < CODE_POINTS ? kinds[point] : POINT_ASSIGNED;
        if (kind == POINT_UNKNOWN) {
            *at = i;
            return (int32_t)point;
        }
        *count += kind == POINT_UNASSIGNED;
        i += size;
    }
    *at = length;
    return -1;
}
