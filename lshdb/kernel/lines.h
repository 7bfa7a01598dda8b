/* Lines of JSON; see lines.c. */

#ifndef LSHDB_LINES_H
#define LSHDB_LINES_H

#include <stddef.h>
#include <stdint.h>

/* What is between the quotes of a string, or a whole number. */
typedef struct {
    const uint8_t *bytes;
    size_t length;
    int is_ascii, is_escaped;
} Span;

/* The key and the text of a record. */
typedef struct {
    Span key, text;
} Record;

/* Names of fields, in UTF-8 and without escapes. */
typedef struct {
    const uint8_t *key, *text;
    size_t key_length, text_length;
} Names;

enum { LINE_ODD, LINE_BLANK, LINE_RECORD };

/* Find key and text of the object in a line. Returns LINE_RECORD where the whole line is plainly valid and has
   both, each once; LINE_BLANK; and LINE_ODD for every other line, valid or not. */
int scan_line(const uint8_t *line, size_t length, const Names *names, Record *record);

/* Write the characters of a span in UTF-8, at most its length; returns their number of bytes. */
size_t unescape(uint8_t *out, const Span *span);

#endif
