/* See row_sums.h. The CRC takes eight bytes at a time by eight tables (Kounavis and Berry, "A systematic
   approach to building high performance software-based CRC generators", 2005). */

#include "row_sums.h"

#include <string.h>

static uint32_t sums[8][256];

void fill_sums(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t sum = byte;
        for (int bit = 0; bit < 8; bit++)
            sum = sum >> 1 ^ (sum & 1 ? 0xedb88320u : 0);
        sums[0][byte] = sum;
    }
    for (int table = 1; table < 8; table++)
        for (int byte = 0; byte < 256; byte++) {
            uint32_t sum = sums[table - 1][byte];
            sums[table][byte] = sum >> 8 ^ sums[0][sum & 255];
        }
}

uint32_t crc32_of(const uint8_t *data, size_t length)
{
    uint32_t sum = 0xffffffffu;
    for (; length >= 8; data += 8, length -= 8) {
        uint32_t low = sum
                       ^ ((uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16
                          | (uint32_t)data[3] << 24);
        sum = sums[7][low & 255] ^ sums[6][low >> 8 & 255] ^ sums[5][low >> 16 & 255]
              ^ sums[4][low >> 24] ^ sums[3][data[4]] ^ sums[2][data[5]] ^ sums[1][data[6]]
              ^ sums[0][data[7]];
    }
    for (; length; data++, length--)
        sum = sum >> 8 ^ sums[0][(sum ^ *data) & 255];
    return ~sum;
}

static const char digits[] = "0123456789abcdef";

static uint8_t *json_escaped(uint8_t *out, const uint8_t *text, size_t length)
{
    static const char letters[] =
        "uuuuuuuubtnufruu"; /* what stands for a control character below 16 */
    for (size_t place = 0; place < length; place++) {
        uint8_t byte = text[place];
        if (byte >= 32) {
            if (byte == '"' || byte == '\\')
                *out++ = '\\';
            *out++ = byte;
            continue;
        }
        char letter = byte < 16 ? letters[byte] : 'u';
        *out++ = '\\';
        *out++ = (uint8_t)letter;
        if (letter == 'u') {
            *out++ = '0';
            *out++ = '0';
            *out++ = (uint8_t)digits[byte >> 4];
            *out++ = (uint8_t)digits[byte & 15];
        }
    }
    return out;
}

uint8_t *json_text(uint8_t *out, const uint8_t *text, size_t length)
{
    unsigned special = 0;
    for (size_t place = 0; place < length; place++)
        special |= (text[place] < 32) | (text[place] == '"') | (text[place] == '\\');
    *out++ = '"';
    if (special)
        out = json_escaped(out, text, length);
    else if (length)
        out = (uint8_t *)memcpy(out, text, length) + length;
    *out++ = '"';
    return out;
}

uint8_t *json_hex(uint8_t *out, const uint8_t *bytes, size_t length)
{
    *out++ = '"';
    for (size_t place = 0; place < length; place++) {
        *out++ = (uint8_t)digits[bytes[place] >> 4];
        *out++ = (uint8_t)digits[bytes[place] & 15];
    }
    *out++ = '"';
    return out;
}

uint8_t *json_whole(uint8_t *out, int64_t number)
{
    uint8_t backwards[JSON_WHOLE_BYTES];
    size_t length = 0;
    uint64_t left = number < 0 ? -(uint64_t)number : (uint64_t)number;
    do
        backwards[length++] = (uint8_t)digits[left % 10];
    while (left /= 10);
    if (number < 0)
        *out++ = '-';
    while (length)
        *out++ = backwards[--length];
    return out;
}
