/* Find the key and the text in lines of JSON (documents/formats/jsonl.py).

   Decided: only what is plainly fine is taken here. Another line, whether it is valid or not, is left to the
   parser, which knows every rule and has the words for every fault. So this scanner must never take a
   line that the parser refuses or reads in another way, and may leave any line. It leaves lines with
   names that have escapes, fields that come twice, lone surrogates, NUL, numbers of more than 18 digits
   or with an exponent, and deep nesting. */

#include "lines.h"

#include <string.h>

#include "hashing.h"

#define DEEPEST 32
#define MOST_DIGITS 18
#define ONES UINT64_C(0x0101010101010101)
#define HIGHS UINT64_C(0x8080808080808080)

static inline const uint8_t *skip_space(const uint8_t *at, const uint8_t *end)
{
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\r'))
        at++;
    return at;
}

static inline int hex_of(uint8_t byte)
{
    if ((uint8_t)(byte - '0') < 10)
        return byte - '0';
    byte |= 0x20;
    return (uint8_t)(byte - 'a') < 6 ? byte - 'a' + 10 : -1;
}

/* The number in the four digits of \u, which `at` stands behind; -1 if there are none. */
static int32_t unit_of(const uint8_t *at, const uint8_t *end)
{
    int32_t unit = 0;
    if (end - at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        int digit = hex_of(at[i]);
        if (digit < 0)
            return -1;
        unit = unit << 4 | digit;
    }
    return unit;
}

/* Skip an escape whose backslash is at `at`; NULL if it is not plain. */
static const uint8_t *skip_escape(const uint8_t *at, const uint8_t *end)
{
    if (end - at < 2)
        return NULL;
    if (at[1] != 'u')
        return at[1] && strchr("\"\\/bfnrt", at[1]) ? at + 2 : NULL;
    int32_t unit = unit_of(at + 2, end);
    if (unit <= 0 || (unit & 0xFC00) == 0xDC00)
        return NULL;
    at += 6;
    if ((unit & 0xFC00) != 0xD800)
        return at;
    if (end - at < 6 || at[0] != '\\' || at[1] != 'u' || (unit_of(at + 2, end) & 0xFC00) != 0xDC00)
        return NULL;
    return at + 6;
}

/* Skip a character of two bytes or more; NULL if it is not valid UTF-8 (Unicode 15, table 3-7). */
static const uint8_t *skip_wide(const uint8_t *at, const uint8_t *end)
{
    uint8_t lead = at[0], low = 0x80, high = 0xBF;
    int more = lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
    if (lead < 0xC2 || lead > 0xF4 || end - at <= more)
        return NULL;
    low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : low;
    high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : high;
    if (at[1] < low || at[1] > high)
        return NULL;
    for (int i = 2; i <= more; i++)
        if ((at[i] & 0xC0) != 0x80)
            return NULL;
    return at + more + 1;
}

/* Whether one of eight bytes is a quote, a backslash, a control character or not ASCII; or perhaps where not. */
static inline uint64_t is_special(uint64_t word)
{
    uint64_t quote = word ^ ONES * '"', slash = word ^ ONES * '\\';
    uint64_t found = ((quote - ONES) & ~quote) | ((slash - ONES) & ~slash) | (word - ONES * 0x20);
    return (found | word) & HIGHS;
}

/* Read a string whose opening quote is before `at`. Returns where it ends, behind its quote; NULL if it is not
   plain. */
static const uint8_t *scan_string(const uint8_t *at, const uint8_t *end, Span *span)
{
    *span = (Span){.bytes = at, .is_ascii = 1};
    while (at) {
        while (end - at >= 8 && !is_special(load64(at)))
            at += 8;
        if (at >= end || *at < 0x20)
            return NULL;
        if (*at == '"') {
            span->length = (size_t)(at - span->bytes);
            return at + 1;
        }
        if (*at == '\\') {
            span->is_escaped = 1;
            at = skip_escape(at, end);
        } else if (*at >= 0x80) {
            span->is_ascii = 0;
            at = skip_wide(at, end);
        } else {
            at++;
        }
    }
    return NULL;
}

static const uint8_t *skip_digits(const uint8_t *at, const uint8_t *end)
{
    while (at < end && (uint8_t)(*at - '0') < 10)
        at++;
    return at;
}

/* Read a number of few digits. *is_whole says whether its text is also that of the integer that it is. */
static const uint8_t *scan_number(const uint8_t *at, const uint8_t *end, int *is_whole)
{
    int is_negative = *at == '-';
    const uint8_t *first = at + is_negative;
    at = skip_digits(first, end);
    if (at == first || at - first > MOST_DIGITS || (*first == '0' && at - first > 1))
        return NULL;
    *is_whole = !(is_negative && *first == '0');
    if (at < end && *at == '.') {
        first = ++at;
        at = skip_digits(first, end);
        *is_whole = 0;
        if (at == first || at - first > MOST_DIGITS)
            return NULL;
    }
    return at < end && (*at == 'e' || *at == 'E') ? NULL : at;
}

static const uint8_t *skip_word(const uint8_t *at, const uint8_t *end, const char *word)
{
    size_t length = strlen(word);
    return (size_t)(end - at) >= length && !memcmp(at, word, length) ? at + length : NULL;
}

/* Skip a value that is not needed; NULL if it is not plain. */
static const uint8_t *skip_value(const uint8_t *at, const uint8_t *end, int depth)
{
    Span span;
    int is_whole;
    if (at >= end || depth > DEEPEST)
        return NULL;
    if (*at == '"')
        return scan_string(at + 1, end, &span);
    if (*at == 't' || *at == 'f' || *at == 'n')
        return skip_word(at, end, *at == 't' ? "true" : *at == 'f' ? "false" : "null");
    if (*at != '[' && *at != '{')
        return scan_number(at, end, &is_whole);
    int is_object = *at == '{';
    uint8_t closing = is_object ? '}' : ']';
    at = skip_space(at + 1, end);
    if (at < end && *at == closing)
        return at + 1;
    while (at < end) {
        if (is_object) {
            at = *at == '"' ? scan_string(at + 1, end, &span) : NULL;
            at = at ? skip_space(at, end) : end;
            if (at >= end || *at != ':')
                return NULL;
            at = skip_space(at + 1, end);
        }
        at = skip_value(at, end, depth + 1);
        at = at ? skip_space(at, end) : end;
        if (at < end && *at == closing)
            return at + 1;
        if (at >= end || *at != ',')
            return NULL;
        at = skip_space(at + 1, end);
    }
    return NULL;
}

static inline int is_named(const Span *name, const uint8_t *wanted, size_t length)
{
    return name->length == length && !memcmp(name->bytes, wanted, length);
}

/* Read the value of a key, at `at`: a string, or a whole number. */
static const uint8_t *scan_key(const uint8_t *at, const uint8_t *end, Span *key)
{
    int is_whole = 0;
    if (at < end && *at == '"')
        return scan_string(at + 1, end, key);
    if (at >= end || (*at != '-' && (uint8_t)(*at - '0') > 9))
        return NULL;
    const uint8_t *after = scan_number(at, end, &is_whole);
    if (!after || !is_whole)
        return NULL;
    *key = (Span){.bytes = at, .length = (size_t)(after - at), .is_ascii = 1};
    return after;
}

/* Read one member of the record. Returns where it ends, or NULL if the line is odd. */
static const uint8_t *scan_member(const uint8_t *at, const uint8_t *end, const Names *names,
                                  Record *record)
{
    Span name;
    if (at >= end || *at != '"' || !(at = scan_string(at + 1, end, &name)) || name.is_escaped)
        return NULL;
    at = skip_space(at, end);
    if (at >= end || *at != ':')
        return NULL;
    at = skip_space(at + 1, end);
    const uint8_t *after = NULL;
    int is_key = is_named(&name, names->key, names->key_length);
    int is_text = is_named(&name, names->text, names->text_length);
    if ((is_key && record->key.bytes) || (is_text && record->text.bytes))
        return NULL;
    if (is_key)
        after = scan_key(at, end, &record->key);
    if (is_text)
        after = at < end && *at == '"' ? scan_string(at + 1, end, &record->text) : NULL;
    if (!is_key && !is_text)
        after = skip_value(at, end, 1);
    return after;
}

int scan_line(const uint8_t *line, size_t length, const Names *names, Record *record)
{
    const uint8_t *end = line + length, *at = skip_space(line, end);
    *record = (Record){0};
    if (at == end)
        return LINE_BLANK;
    if (*at != '{')
        return LINE_ODD;
    do {
        at = skip_space(at + 1, end);
        at = scan_member(at, end, names, record);
        if (!at)
            return LINE_ODD;
        at = skip_space(at, end);
    } while (at < end && *at == ',');
    if (at >= end || *at != '}' || skip_space(at + 1, end) != end)
        return LINE_ODD;
    return record->key.bytes && record->text.bytes ? LINE_RECORD : LINE_ODD;
}

static uint8_t plain_escape(uint8_t byte)
{
    switch (byte) {
    case 'b':
        return '\b';
    case 'f':
        return '\f';
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    default:
        return byte;
    }
}

static uint8_t *put_point(uint8_t *out, uint32_t point)
{
    if (point < 0x80) {
        *out++ = (uint8_t)point;
        return out;
    }
    int more = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
    *out++ = (uint8_t)((more == 1 ? 0xC0 : more == 2 ? 0xE0 : 0xF0) | point >> (6 * more));
    while (more--)
        *out++ = (uint8_t)(0x80 | (point >> (6 * more) & 0x3F));
    return out;
}

size_t unescape(uint8_t *out, const Span *span)
{
    const uint8_t *at = span->bytes, *end = at + span->length;
    uint8_t *begun = out;
    while (at < end) {
        const uint8_t *slash = memchr(at, '\\', (size_t)(end - at));
        size_t before = (size_t)((slash ? slash : end) - at);
        memcpy(out, at, before);
        out += before;
        at += before;
        if (!slash)
            break;
        if (at[1] != 'u') {
            *out++ = plain_escape(at[1]);
            at += 2;
            continue;
        }
        uint32_t point = (uint32_t)unit_of(at + 2, end);
        at += 6;
        if ((point & 0xFC00) == 0xD800) {
            point = 0x10000 + ((point & 0x3FF) << 10) + ((uint32_t)unit_of(at + 2, end) & 0x3FF);
            at += 6;
        }
        out = put_point(out, point);
    }
    return (size_t)(out - begun);
}
