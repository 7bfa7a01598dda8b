/* The Python interface of one query at a time: few calls, whose results are small numbers or bytes and no
   arrays, because making those takes longer than the work. */

#define _XOPEN_SOURCE 700 /* pread */
#define _FILE_OFFSET_BITS 64

#include "binding.h"

#include "rows.h"

#include <errno.h>
#include <unistd.h>

#define MAX_BANDS 255
/* Rows between two checks for signals. */
#define ROWS_AT_ONCE 256

/* Put the distinct shingle hashes of a text into work->hashes; their number, or below 0. */
static ptrdiff_t shingle_any(Workspace *work, const uint8_t *text, size_t length, int unit,
                             size_t k, int bag)
{
    if (bag || !is_long(length, work->listener))
        return shingle(work, text, length, unit, k, bag);
    uint64_t *hashes = NULL;
    size_t found = 0;
    int done = shingle_long(work, text, length, unit, k, &hashes, &found, work->listener);
    if (done == WORK_DONE)
        done = reserve_hashes(work, found);
    if (done == WORK_DONE && found)
        memcpy(work->hashes, hashes, found * sizeof *hashes);
    free(hashes);
    return done == WORK_DONE ? (ptrdiff_t)found : done;
}

PyDoc_STRVAR(sign_query_doc,
"sign_query(text, unit, k, bag, scheme, num_perm, constants, bands, height)\n--\n\n"
"Return the distinct shingle hashes of a normalised text (uint64, in no order), its signature row (uint16)\n"
"and its bucket keys (int64), as bytes; three times none for a text without shingles.");

static PyObject *py_sign_query(PyObject *module, PyObject *args)
{
    PyObject *text;
    int unit, bag, scheme;
    Py_ssize_t k, num_perm, bands, height, length;
    HELD Py_buffer constants = {0};
    if (!PyArg_ParseTuple(args, "Uinpiny*nn", &text, &unit, &k, &bag, &scheme, &num_perm,
                          &constants, &bands, &height))
        return NULL;
    if (!is_shingling(unit, k) || !is_scheme(scheme, num_perm, &constants)
        || !is_banding(num_perm, WORD_BITS, bands, height))
        return NULL;
    const char *bytes = PyUnicode_AsUTF8AndSize(text, &length);
    if (!bytes)
        return NULL;
    uint16_t row[MAX_NUM_PERM];
    uint64_t keys[MAX_BANDS];
    Hearing hearing;
    Listener listener = listen_with(&hearing, module);
    const Level *level = level_of(module);
    Workspace work = {.level = level, .listener = &listener},
              sketching = {.level = level, .listener = &listener};
    hearing.released = PyEval_SaveThread();
    ptrdiff_t found =
        shingle_any(&work, (const uint8_t *)bytes, (size_t)length, unit, (size_t)k, bag);
    int undone = found < 0 ? (int)found : WORK_DONE;
    if (found > 0 && (undone = reserve_hashes(&sketching, (size_t)found)) == WORK_DONE) {
        memcpy(sketching.hashes, work.hashes, (size_t)found * sizeof *work.hashes);
        undone = sketch(&sketching, scheme, sketching.hashes, (size_t)found, (uint32_t)num_perm,
                        constants.buf, row);
    }
    if (found > 0 && undone == WORK_DONE)
        bucket_keys(row, 1, (size_t)num_perm, WORD_BITS, (size_t)bands, (size_t)height, keys);
    PyEval_RestoreThread(hearing.released);
    PyObject *result = NULL;
    if (undone != WORK_DONE)
        say_why(undone);
    else
        result =
            Py_BuildValue("y#y#y#", found ? (const char *)work.hashes : "", (Py_ssize_t)found * 8,
                          (const char *)row, found ? num_perm * (Py_ssize_t)sizeof *row : 0,
                          (const char *)keys, found ? bands * 8 : 0);
    release(&work);
    release(&sketching);
    return result;
}

const uint16_t *row_at(const Rows *rows, int64_t id, uint16_t *held, int *failure)
{
    if (rows->words)
        return rows->words + (size_t)id * rows->row_words;
    size_t size = rows->row_words * sizeof *held, done = 0;
    while (done < size) {
        ssize_t got = pread(rows->descriptor, (char *)held + done, size - done,
                            (off_t)(rows->offset + id * (int64_t)size + (int64_t)done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            *failure = got < 0 ? ROW_UNREADABLE : ROW_MISSING;
            return held;
        }
        done += (size_t)got;
    }
    return held;
}

static int by_number(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

static int append_agreeing(AgreeingRows *found, const AgreeingRow *row)
{
    if (found->n == found->room) {
        size_t room = 2 * found->room + 64;
        AgreeingRow *moved = realloc(found->rows, room * sizeof *moved);
        if (!moved)
            return WORK_MEMORY;
        found->rows = moved;
        found->room = room;
    }
    found->rows[found->n++] = *row;
    return WORK_DONE;
}

/* Most queries have a few tens of candidates. */
static void sort_numbers(int64_t *numbers, size_t n)
{
    if (n > 64) {
        qsort(numbers, n, sizeof *numbers, by_number);
        return;
    }
    for (size_t i = 1; i < n; i++) {
        int64_t number = numbers[i];
        size_t j = i;
        for (; j && numbers[j - 1] > number; j--)
            numbers[j] = numbers[j - 1];
        numbers[j] = number;
    }
}

int compare_candidates(const Comparing *job, int64_t query, const uint16_t *row, int64_t *ids,
                       size_t n, AgreeingRows *found, const Listener *listener)
{
    const Rows *rows = &job->rows;
    uint16_t other[MAX_BITS / WORD_BITS];
    int failure = WORK_DONE;
    sort_numbers(ids, n);
    if (n && (ids[0] < 0 || ids[n - 1] >= rows->n))
        return ROW_OUTSIDE;
    for (size_t i = 0; i < n && rows->words; i++) /* so that one row does not wait for another */
        __builtin_prefetch(rows->words + (size_t)ids[i] * rows->row_words);
    for (size_t i = 0; i < n && !failure; i++) {
        if (i && ids[i] == ids[i - 1])
            continue;
        const uint16_t *there = row_at(rows, ids[i], other, &failure);
        if (failure)
            break;
        AgreeingRow agreeing = {query, ids[i], 0, 0};
        int32_t equal, matched, first;
        (job->is_bits ? compare_bits : compare_rows)(job->level, row, there, rows->row_words,
                                                     job->bands, job->height, &equal, &matched,
                                                     &first);
        agreeing.equal = equal;
        agreeing.matched = matched;
        if (matched && equal >= job->least)
            failure = append_agreeing(found, &agreeing);
        if (!failure && i % ROWS_AT_ONCE == ROWS_AT_ONCE - 1 && is_stopped(listener))
            failure = WORK_STOPPED;
    }
    return failure;
}

/* Items are appended, so that nobody sees a list with empty places. */
static PyObject *as_list(const AgreeingRows *found)
{
    PyObject *list = PyList_New(0);
    for (size_t i = 0; i < found->n && list; i++) {
        const AgreeingRow *row = &found->rows[i];
        PyObject *item =
            Py_BuildValue("Lii", (long long)row->id, (int)row->equal, (int)row->matched);
        if (!item || PyList_Append(list, item))
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

PyObject *say_row(int failure, int reason)
{
    errno = reason;
    if (failure == ROW_OUTSIDE) {
        PyErr_SetString(PyExc_IndexError, "a row is outside the rows");
        return NULL;
    }
    if (failure == ROW_UNREADABLE)
        return PyErr_SetFromErrno(PyExc_OSError);
    if (failure == ROW_MISSING) {
        PyErr_SetString(PyExc_ValueError, "the file ends before a row");
        return NULL;
    }
    return say_why(failure);
}

int take_source(PyObject *source, Rows *rows, Py_buffer *held)
{
    int64_t size = WORD_BYTES * (int64_t)rows->row_words;
    if (rows->offset < 0 || rows->n < 0 || rows->n > (INT64_MAX - rows->offset) / size) {
        PyErr_SetString(PyExc_ValueError, "offset or n_rows is out of range");
        return 0;
    }
    if (!PyLong_Check(source)) {
        if (PyObject_GetBuffer(source, held, PyBUF_SIMPLE))
            return 0;
        rows->words = held->buf;
        return is_length(held, multiply((Py_ssize_t)rows->n, (Py_ssize_t)rows->row_words),
                         WORD_BYTES, "rows");
    }
    long descriptor = PyLong_AsLong(source);
    if (descriptor < 0 || descriptor > INT_MAX) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "the descriptor is out of range");
        return 0;
    }
    rows->descriptor = (int)descriptor;
    return 1;
}

PyDoc_STRVAR(compare_found_doc,
"compare_found(row, ids, least, source, offset, n_rows, words, bands, height, is_bits)\n--\n\n"
"Compare a row (uint16) with some of n_rows others, by their numbers (int64, in any order, repeated or not).\n"
"Returns (number, equal slots, bands that agree) of each that agrees in a band and has `least` equal slots, in\n"
"order of number. The others are a buffer, or lie in the file of a descriptor from `offset` on. Raises\n"
"IndexError for a number out of range, OSError if the file cannot be read, ValueError if it is too short.");

static PyObject *py_compare_found(PyObject *module, PyObject *args)
{
    PyObject *source;
    long long offset, n_rows, least;
    Py_ssize_t words, bands, height;
    int is_bits;
    HELD Py_buffer row = {0}, ids = {0}, held = {0};
    if (!PyArg_ParseTuple(args, "y*y*LOLLnnnp", &row, &ids, &least, &source, &offset, &n_rows,
                          &words, &bands, &height, &is_bits)
        || !is_banding(words, is_bits ? 1 : WORD_BITS, bands, height))
        return NULL;
    size_t n = (size_t)ids.len / 8;
    if (!is_length(&row, words, WORD_BYTES, "row") || !is_length(&ids, ids.len / 8, 8, "ids"))
        return NULL;
    Comparing job = {{NULL, -1, offset, n_rows, (size_t)words},
                     level_of(module),
                     least,
                     (size_t)bands,
                     (size_t)height,
                     is_bits};
    if (!take_source(source, &job.rows, &held))
        return NULL;
    int64_t *numbers = malloc((n + 1) * sizeof *numbers);
    if (!numbers)
        return PyErr_NoMemory();
    memcpy(numbers, ids.buf, n * sizeof *numbers); /* another thread may change them */
    Hearing hearing;
    Listener listener = listen_with(&hearing, module);
    AgreeingRows found = {0};
    hearing.released = PyEval_SaveThread();
    int failure = compare_candidates(&job, 0, row.buf, numbers, n, &found, &listener),
        reason = errno;
    PyEval_RestoreThread(hearing.released);
    PyObject *result = failure ? say_row(failure, reason) : as_list(&found);
    free(numbers);
    free(found.rows);
    return result;
}

PyDoc_STRVAR(share_with_doc,
"share_with(hashes, texts, unit, k, bag)\n--\n\n"
"Return for each normalised text (shingles that it shares with a set, shingles that it has). The set is distinct\n"
"hashes (uint64) in any order.");

static PyObject *py_share_with(PyObject *module, PyObject *args)
{
    PyObject *list;
    int unit, bag;
    Py_ssize_t k;
    HELD Py_buffer hashes = {0};
    if (!PyArg_ParseTuple(args, "y*O!inp", &hashes, &PyList_Type, &list, &unit, &k, &bag)
        || !is_shingling(unit, k) || !is_length(&hashes, hashes.len / 8, 8, "hashes"))
        return NULL;
    size_t n = (size_t)hashes.len / 8;
    Hearing hearing;
    Listener listener = listen_with(&hearing, module);
    const Level *level = level_of(module);
    Workspace set = {.level = level, .listener = &listener},
              other = {.level = level, .listener = &listener};
    /* A tuple of our own keeps the texts alive while another thread may change the list. */
    PyObject *kept = PyList_AsTuple(list), *found = kept ? PyList_New(0) : NULL;
    int undone = found ? reserve_hashes(&set, n) : WORK_DONE;
    for (Py_ssize_t i = 0; found && !undone && i < PyTuple_GET_SIZE(kept); i++) {
        PyObject *text = PyTuple_GET_ITEM(kept, i), *pair = NULL;
        Py_ssize_t length = 0;
        const char *bytes = NULL;
        if (!PyUnicode_Check(text))
            PyErr_Format(PyExc_TypeError, "text %zd is %.100s, expected str", i,
                         Py_TYPE(text)->tp_name);
        else
            bytes = PyUnicode_AsUTF8AndSize(text, &length);
        if (bytes) {
            hearing.released = PyEval_SaveThread();
            if (n)
                memcpy(set.hashes, hashes.buf, n * sizeof *set.hashes);
            ptrdiff_t many =
                shingle_any(&other, (const uint8_t *)bytes, (size_t)length, unit, (size_t)k, bag);
            ptrdiff_t common = many < 0 ? many : count_shared(&set, n, &other, (size_t)many);
            if (common >= 0 && is_stopped(&listener))
                common = WORK_STOPPED;
            PyEval_RestoreThread(hearing.released);
            undone = common < 0 ? (int)common : WORK_DONE;
            if (undone)
                break;
            pair = Py_BuildValue("nn", (Py_ssize_t)common, (Py_ssize_t)many);
        }
        if (!pair || PyList_Append(found, pair))
            Py_CLEAR(found);
        Py_XDECREF(pair);
    }
    release(&set);
    release(&other);
    Py_XDECREF(kept);
    if (undone) {
        Py_XDECREF(found);
        return say_why(undone);
    }
    return found;
}

PyMethodDef query_methods[] = {
    {"sign_query", py_sign_query, METH_VARARGS, sign_query_doc},
    {"compare_found", py_compare_found, METH_VARARGS, compare_found_doc},
    {"share_with", py_share_with, METH_VARARGS, share_with_doc},
    {NULL, NULL, 0, NULL},
};
