/* Distinct shingles and signature rows of long texts, in little memory and open to signals.

   shingles.c keeps the start of each token of a text, all hashes and a table of them: 40 bytes per shingle,
   which may be one byte of the text. This file walks through a text piece by piece, several times. Each pass
   keeps only the hashes of its part, an eighth of them or less, and sorts them. A part is sketched as soon as
   it is complete, because the minimum of each slot over the parts is the minimum over all. If repeats leave
   only few shingles, they are sketched like those of any text.

   A secret number decides in which part a hash falls, so that no text can be written whose hashes all fall
   into one part. A part that is too large nevertheless grows. */

#include <stdlib.h>

#include "hashing.h"
#include "kernel.h"
#include "words.h"

/* A text of more than 16 times as many bytes as shingles are hashed at a time is long; a part has 32
   times as many hashes, or an eighth of all if that is more. */
enum { LONG = 16, PART = 32, MOST_PARTS = 8 };

int is_long(size_t length, const Listener *listener) { return length > LONG * listener->piece; }

/* A text of tokens in a workspace, and the number of its shingles hashed so far. */
typedef struct {
    const Listener *listener;
    size_t count, width, gap; /* shingles; tokens in each; length of the separator after it */
    size_t bytes, at, done;
    int unit, is_whole; /* whether the text is one token */
} Stream;

static int begin(Stream *stream, Workspace *work, const uint8_t *text, size_t length, int unit,
                 size_t k, const Listener *listener)
{
    *stream = (Stream){.listener = listener, .unit = unit, .bytes = length};
    if (reserve_tokens(work, 0, 2 * length))
        return WORK_MEMORY;
    size_t tokens = 0;
    if (unit == UNIT_WORD) {
        stream->bytes = work->level->split_words(work->text, text, length);
        stream->is_whole = !stream->bytes && !is_blank(text, length);
        if (stream->is_whole) {
            memcpy(work->text, text, length);
            work->text[length] = ' ';
            stream->bytes = length + 1;
        }
    } else if (unit == UNIT_LINE || unit == UNIT_TOKEN)
        stream->bytes = split_pieces(work->text, text, length, unit == UNIT_LINE ? '\n' : ' ');
    else
        memcpy(work->text, text, length);
    memset(work->text + stream->bytes, 0, PADDING);
    if (stream->is_whole)
        tokens = 1;
    else if (unit == UNIT_BYTE)
        tokens = length;
    else if (unit == UNIT_CHAR)
        for (size_t i = 0; i < length; i++)
            tokens += (text[i] & 0xC0) != 0x80;
    else
        for (size_t i = 0; i < stream->bytes; i++)
            tokens += work->text[i] == (unit == UNIT_LINE ? '\n' : ' ');
    stream->gap = unit != UNIT_CHAR && unit != UNIT_BYTE;
    stream->width = tokens > k ? k : tokens;
    stream->count = tokens ? tokens - stream->width + 1 : 0;
    size_t many = stream->count < listener->piece ? stream->count : listener->piece;
    return reserve_tokens(work, many + stream->width, 2 * length) || reserve_hashes(work, many)
               ? WORK_MEMORY
               : WORK_DONE;
}

static void rewind_stream(Stream *stream) { stream->at = stream->done = 0; }

/* The start of the token after the one at `at`. */
static inline size_t next_token(const Stream *stream, const uint8_t *text, size_t at)
{
    if (stream->is_whole)
        return stream->bytes;
    if (stream->gap) {
        int separator = stream->unit == UNIT_LINE ? '\n' : ' ';
        return (size_t)((const uint8_t *)memchr(text + at, separator, stream->bytes - at) - text)
               + 1;
    }
    at++;
    if (stream->unit == UNIT_CHAR)
        while ((text[at] & 0xC0) == 0x80) /* a zero follows the text */
            at++;
    return at;
}

/* Hash the next shingles into work->hashes. Returns their number, 0 at the end, or WORK_STOPPED (below 0). */
static ptrdiff_t next_hashes(Stream *stream, Workspace *work)
{
    size_t many = stream->count - stream->done, at = stream->at, most = stream->listener->piece;
    many = many < most ? many : most;
    if (!many)
        return 0;
    if (is_stopped(stream->listener))
        return WORK_STOPPED;
    for (size_t i = 0; i < many + stream->width - 1; i++) {
        work->starts[i] = at;
        at = next_token(stream, work->text, at);
    }
    work->starts[many + stream->width - 1] = at;
    int hashed = hash_slices(work, many, stream->width, stream->gap);
    if (hashed != WORK_DONE)
        return hashed;
    stream->at = work->starts[many];
    stream->done += many;
    return (ptrdiff_t)many;
}

/* Hashes of one part, with room for 8 more after them, and as much room to sort them. */
typedef struct {
    uint64_t *hashes, *other;
    size_t n, room;
} Part;

static int resize(Part *part, size_t room)
{
    free(part->other);
    part->other = malloc((room + 8) * sizeof *part->other);
    uint64_t *hashes = realloc(part->hashes, (room + 8) * sizeof *hashes);
    if (hashes)
        part->hashes = hashes;
    if (!hashes || !part->other)
        return WORK_MEMORY;
    part->room = room;
    return WORK_DONE;
}

/* Sort byte by byte and keep each hash once. The time does not depend on the hashes. */
static int sort_distinct(Part *part, const Listener *listener)
{
    size_t found = 0;
    for (int shift = 0; shift < 64; shift += 8) {
        size_t ends[256] = {0}, sum = 0;
        if (is_stopped(listener))
            return WORK_STOPPED;
        for (size_t i = 0; i < part->n; i++)
            ends[part->hashes[i] >> shift & 0xFF]++;
        for (int byte = 0; byte < 256; byte++) {
            size_t many = ends[byte];
            ends[byte] = sum;
            sum += many;
        }
        for (size_t i = 0; i < part->n; i++)
            part->other[ends[part->hashes[i] >> shift & 0xFF]++] = part->hashes[i];
        uint64_t *sorted = part->other;
        part->other = part->hashes;
        part->hashes = sorted;
    }
    for (size_t i = 0; i < part->n; i++)
        if (!found || part->hashes[i] != part->hashes[found - 1])
            part->hashes[found++] = part->hashes[i];
    part->n = found;
    return WORK_DONE;
}

/* Collect the distinct hashes of part `number`. */
static int collect(Part *part, Stream *stream, Workspace *work, size_t number, size_t parts)
{
    uint64_t secret = stream->listener->secret;
    ptrdiff_t many;
    part->n = 0;
    rewind_stream(stream);
    while ((many = next_hashes(stream, work)) > 0) {
        if (part->room - part->n < (size_t)many) {
            if (sort_distinct(part, stream->listener) != WORK_DONE)
                return WORK_STOPPED;
            if (part->room - part->n < (size_t)many + part->room / 4
                && resize(part, 2 * part->room + (size_t)many))
                return WORK_MEMORY;
        }
        uint64_t *to = part->hashes + part->n;
        for (ptrdiff_t i = 0; i < many; i++) {
            uint64_t hash = work->hashes[i];
            *to = hash;
            to += ((mix64(hash ^ secret) >> 32) * parts) >> 32 == number;
        }
        part->n = (size_t)(to - part->hashes);
    }
    if (many < 0)
        return (int)many;
    return sort_distinct(part, stream->listener);
}

/* Choose the number of parts, and reserve room for one. */
static int make_parts(Part *part, const Stream *stream, size_t *parts)
{
    size_t count = stream->count, piece = stream->listener->piece, least = PART * piece;
    *parts = count / least + 1 < MOST_PARTS ? count / least + 1 : MOST_PARTS;
    size_t room = count / *parts;
    return resize(part, room + room / 8 + 2 * piece);
}

/* An unfinished signature row. */
typedef struct {
    const Level *level;
    int scheme;
    uint32_t num_perm;
    const uint64_t *constants;
    uint64_t *slots; /* of fss: round and value */
    uint32_t *least; /* of universal */
} Sketch;

/* Add n hashes to a sketch; they are changed, and the 8 places after them may be written. */
static int take_hashes(Sketch *sketch, uint64_t *hashes, size_t n, size_t round,
                       const Listener *listener)
{
    if (!n)
        return WORK_DONE;
    if (sketch->scheme == SCHEME_FSS)
        for (size_t i = 0; i < n; i++)
            hashes[i] = fold(hashes[i]);
    for (size_t i = 0; i < 8; i++) /* repeats make no difference */
        hashes[n + i] = hashes[0];
    for (size_t begin = 0; begin < n; begin += listener->piece) {
        size_t many = n - begin < listener->piece ? n - begin : listener->piece;
        if (is_stopped(listener))
            return WORK_STOPPED;
        if (sketch->scheme == SCHEME_FSS) {
            sketch->level->throw_rounds(sketch->slots, hashes + begin, many, sketch->constants,
                                        round, round + 1, sketch->num_perm, 0);
            continue;
        }
        if (take_universal(sketch->level, listener, hashes + begin, many, sketch->num_perm,
                           sketch->constants, sketch->least))
            return WORK_STOPPED;
    }
    return WORK_DONE;
}

/* Fill slots of fss that the first round left empty, as sketches.c does: by further rounds, and then by the
   minimum. Repeats are thrown again, which makes no difference. */
static int fill_slots(Sketch *sketch, Stream *stream, Workspace *work)
{
    uint8_t empty[MAX_NUM_PERM];
    size_t left = 1;
    for (size_t round = 1; left; round++) {
        left = 0;
        for (uint32_t j = 0; j < sketch->num_perm; j++)
            left += empty[j] = sketch->slots[j] == UINT64_MAX;
        if (!left || round > sketch->num_perm)
            return WORK_DONE;
        ptrdiff_t many;
        rewind_stream(stream);
        while ((many = next_hashes(stream, work)) > 0) {
            if (round < sketch->num_perm) {
                int done = take_hashes(sketch, work->hashes, (size_t)many, round, stream->listener);
                if (done != WORK_DONE)
                    return done;
                continue;
            }
            for (uint32_t j = 0; j < sketch->num_perm; j++) {
                uint64_t key = fold(sketch->constants[sketch->num_perm + j]);
                if (empty[j] && is_stopped(stream->listener))
                    return WORK_STOPPED;
                for (ptrdiff_t i = 0; empty[j] && i < many; i++) {
                    uint64_t value = (uint32_t)mix_folded(fold(work->hashes[i]) ^ key);
                    sketch->slots[j] = value < sketch->slots[j] ? value : sketch->slots[j];
                }
            }
        }
        if (many < 0)
            return (int)many;
    }
    return WORK_DONE;
}

/* Sketch the parts of a stream one by one; `few` has room for `most` hashes and 8 more. */
static int sketch_parts(Sketch *sketch, Stream *stream, Workspace *work, Part *part, uint64_t *few,
                        size_t most, size_t *count)
{
    size_t parts;
    int done = make_parts(part, stream, &parts);
    *count = 0;
    for (size_t number = 0; number < parts && done == WORK_DONE; number++) {
        if ((done = collect(part, stream, work, number, parts)) != WORK_DONE)
            break;
        if (part->n <= most && *count <= most - part->n)
            memcpy(few + *count, part->hashes, part->n * sizeof *few);
        *count += part->n;
        done = take_hashes(sketch, part->hashes, part->n, 0, stream->listener);
    }
    return done;
}

int sign_long(Workspace *work, const uint8_t *text, size_t length, int unit, size_t k, int scheme,
              uint32_t num_perm, const uint64_t *constants, uint16_t *row, int64_t *found,
              const Listener *listener)
{
    Stream stream;
    Part part = {0};
    size_t most = LONG * listener->piece, count = 0;
    int done = begin(&stream, work, text, length, unit, k, listener);
    *found = 0;
    if (done != WORK_DONE || !stream.count)
        return done;
    uint64_t *few = malloc((most + 8) * sizeof *few), *slots = malloc(num_perm * sizeof *slots);
    uint32_t *least = malloc(num_perm * sizeof *least);
    Sketch making = {work->level, scheme, num_perm, constants, slots, least};
    if (!few || !slots || !least) {
        done = WORK_MEMORY;
    } else {
        memset(slots, 0xFF, num_perm * sizeof *slots);
        memset(least, 0xFF, num_perm * sizeof *least);
        done = sketch_parts(&making, &stream, work, &part, few, most, &count);
    }
    if (done == WORK_DONE && count <= most) {
        done = sketch(work, scheme, few, count, num_perm, constants, row);
    } else if (done == WORK_DONE) {
        if (scheme == SCHEME_FSS)
            done = fill_slots(&making, &stream, work);
        for (uint32_t j = 0; j < num_perm; j++)
            row[j] = scheme == SCHEME_FSS ? (uint16_t)slots[j] : (uint16_t)least[j];
    }
    *found = (int64_t)count;
    free(few);
    free(slots);
    free(least);
    free(part.hashes);
    free(part.other);
    return done;
}

int shingle_long(Workspace *work, const uint8_t *text, size_t length, int unit, size_t k,
                 uint64_t **hashes, size_t *found, const Listener *listener)
{
    Stream stream;
    Part part = {0};
    size_t parts;
    int done = begin(&stream, work, text, length, unit, k, listener);
    *hashes = NULL;
    *found = 0;
    if (done == WORK_DONE && stream.count)
        done = make_parts(&part, &stream, &parts);
    for (size_t number = 0; done == WORK_DONE && stream.count && number < parts; number++) {
        done = collect(&part, &stream, work, number, parts);
        if (done != WORK_DONE || !part.n)
            continue;
        uint64_t *longer = realloc(*hashes, (*found + part.n) * sizeof *longer);
        if (!longer) {
            done = WORK_MEMORY;
            continue;
        }
        *hashes = longer;
        memcpy(longer + *found, part.hashes, part.n * sizeof *longer);
        *found += part.n;
    }
    free(part.hashes);
    free(part.other);
    return done;
}
