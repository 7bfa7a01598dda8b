/* The Python interface of many sets at a time: shingle texts, and compare pairs of their sets, both without
   the interpreter's lock. */

#include "binding.h"

/* Sets between two checks for signals. */
#define SETS_AT_ONCE 256

/* The sets of a list of texts, one after the other. */
typedef struct {
    uint64_t *hashes;
    size_t room, n;
    int64_t *counts;
} Sets;

static int append(Sets *sets, const uint64_t *hashes, size_t n)
{
    if (sets->room - sets->n < n) {
        size_t room = sets->n + n + sets->room / 2 + 1024, bytes;
        if (__builtin_mul_overflow(room, sizeof *hashes, &bytes))
            return WORK_MEMORY;
        uint64_t *moved = realloc(sets->hashes, bytes);
        if (!moved)
            return WORK_MEMORY;
        sets->hashes = moved;
        sets->room = room;
    }
    if (n)
        memcpy(sets->hashes + sets->n, hashes, n * sizeof *hashes);
    sets->n += n;
    return WORK_DONE;
}

/* A text in UTF-8. */
typedef struct {
    const uint8_t *bytes;
    size_t length;
} Utf8;

static int shingle_all(Workspace *work, Sets *sets, const Utf8 *texts, size_t n, int unit, size_t k,
                       int bag)
{
    for (size_t i = 0; i < n; i++) {
        ptrdiff_t found = shingle(work, texts[i].bytes, texts[i].length, unit, k, bag);
        int done = found < 0 ? (int)found : sort_hashes(work, (size_t)found);
        if (done == WORK_DONE)
            done = append(sets, work->hashes, (size_t)found);
        if (done != WORK_DONE)
            return done;
        sets->counts[i] = found;
        if (i % SETS_AT_ONCE == SETS_AT_ONCE - 1 && is_stopped(work->listener))
            return WORK_STOPPED;
    }
    return WORK_DONE;
}

PyDoc_STRVAR(shingle_texts_doc,
"shingle_texts(texts, unit, k, bag, counts)\n--\n\n"
"Return the sorted distinct shingle hashes of normalised texts, one text after the other: a bytearray\n"
"of native uint64. counts (n of int64) gets the number of each.");

static PyObject *py_shingle_texts(PyObject *module, PyObject *args)
{
    PyObject *list, *result = NULL;
    int unit, bag;
    Py_ssize_t k;
    HELD Py_buffer counts = {0};
    if (!PyArg_ParseTuple(args, "O!inpw*", &PyList_Type, &list, &unit, &k, &bag, &counts))
        return NULL;
    /* A tuple of our own keeps the texts alive while another thread may change the list. */
    PyObject *kept = PyList_AsTuple(list);
    Py_ssize_t n = kept ? PyTuple_GET_SIZE(kept) : 0;
    Utf8 *texts = PyMem_Malloc((size_t)(n + 1) * sizeof *texts);
    int is_ready = kept && is_shingling(unit, k) && is_length(&counts, n, 8, "counts");
    if (is_ready && !texts) {
        PyErr_NoMemory();
        is_ready = 0;
    }
    for (Py_ssize_t i = 0; i < n && is_ready; i++) {
        PyObject *text = PyTuple_GET_ITEM(kept, i);
        Py_ssize_t length = 0;
        if (!PyUnicode_Check(text))
            PyErr_Format(PyExc_TypeError, "text %zd is %.100s, expected str", i,
                         Py_TYPE(text)->tp_name);
        else
            texts[i].bytes = (const uint8_t *)PyUnicode_AsUTF8AndSize(text, &length);
        texts[i].length = (size_t)length;
        is_ready = !PyErr_Occurred();
    }
    if (is_ready) {
        Hearing hearing;
        Listener listener = listen_with(&hearing, module);
        Workspace work = {.level = level_of(module), .listener = &listener};
        Sets sets = {.counts = counts.buf};
        hearing.released = PyEval_SaveThread();
        int done = shingle_all(&work, &sets, texts, (size_t)n, unit, (size_t)k, bag);
        release(&work);
        PyEval_RestoreThread(hearing.released);
        result = done == WORK_DONE ? PyByteArray_FromStringAndSize((const char *)sets.hashes,
                                                                   (Py_ssize_t)sets.n * 8)
                                   : say_why(done);
        free(sets.hashes);
    }
    PyMem_Free(texts);
    Py_XDECREF(kept);
    return result;
}

PyDoc_STRVAR(compare_sets_doc,
"compare_sets(parts, sets, left, right, common)\n--\n\n"
"Put the number of values that set left[i] and set right[i] share into common[i] (all int64). parts is a\n"
"list of arrays of uint64, and sets (m, 3) of int64 holds for each set the number of its part, where it\n"
"begins there, and how many sorted distinct values it has.");

/* Arrays that hold sets, and where each set is. */
typedef struct {
    const Py_buffer *parts;
    int64_t n_parts, n_sets;
    const int64_t *sets;
} Held;

typedef struct {
    const uint64_t *values;
    size_t n;
} Set;

/* Find a set; 0 if it is not within the parts. Every number is read once: another thread may change it, and
   so do the results if they share memory. */
static int find_set(const Held *held, int64_t number, Set *set)
{
    if (number < 0 || number >= held->n_sets)
        return 0;
    const volatile int64_t *at = held->sets + 3 * number;
    int64_t part = at[0], begin = at[1], n = at[2];
    if (part < 0 || part >= held->n_parts || begin < 0 || n < 0)
        return 0;
    int64_t length = held->parts[part].len / 8;
    if (begin > length || n > length - begin)
        return 0;
    *set = (Set){(const uint64_t *)held->parts[part].buf + begin, (size_t)n};
    return 1;
}

enum { SET_OUTSIDE = 1 };

/* Pairs in turn with one set on the left for which it is put into a table, and the longest set on the right
   that is looked up there: count_common() hears signals. */
enum { TABLED_FROM = 4, MOST_TABLED = 1 << 16 };

static int compare_all(const Level *level, const Held *held, const volatile int64_t *left,
                       const volatile int64_t *right, int64_t *common, Py_ssize_t n,
                       const Listener *listener)
{
    ValueTable table;
    int64_t last = -1;
    int is_tabled = 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        Set one, other;
        int64_t number = left[i];
        if (!find_set(held, number, &one) || !find_set(held, right[i], &other))
            return SET_OUTSIDE;
        if (number != last) {
            last = number;
            is_tabled = n - i >= TABLED_FROM && left[i + TABLED_FROM - 1] == number
                        && table_values(&table, one.values, one.n);
        }
        size_t found = is_tabled && other.n <= MOST_TABLED
                           ? level->count_tabled(table.cells, table.shift, other.values, other.n)
                           : count_common(one.values, one.n, other.values, other.n, listener);
        if (found == NOT_COUNTED || (i % SETS_AT_ONCE == SETS_AT_ONCE - 1 && is_stopped(listener)))
            return WORK_STOPPED;
        common[i] = (int64_t)found;
    }
    return WORK_DONE;
}

static PyObject *py_compare_sets(PyObject *module, PyObject *args)
{
    PyObject *list, *result = NULL;
    HELD Py_buffer sets = {0}, left = {0}, right = {0}, common = {0};
    if (!PyArg_ParseTuple(args, "O!y*y*y*w*", &PyList_Type, &list, &sets, &left, &right, &common))
        return NULL;
    Py_ssize_t n = left.len / 8, n_sets = sets.len / 24, n_parts = PyList_GET_SIZE(list), held = 0;
    if (!is_length(&sets, multiply(n_sets, 3), 8, "sets") || !is_length(&left, n, 8, "left")
        || !is_length(&right, n, 8, "right") || !is_length(&common, n, 8, "common"))
        return NULL;
    Py_buffer *parts = PyMem_Calloc((size_t)n_parts + 1, sizeof *parts);
    if (!parts)
        return PyErr_NoMemory();
    /* The list may shrink while a part's own code gives its buffer. */
    while (held < n_parts && held < PyList_GET_SIZE(list)) {
        PyObject *part = Py_NewRef(PyList_GET_ITEM(list, held));
        const Py_buffer *buffer = &parts[held];
        int failed = PyObject_GetBuffer(part, &parts[held], PyBUF_SIMPLE);
        Py_DECREF(part);
        held += !failed;
        if (failed || !is_length(buffer, buffer->len / 8, 8, "a part"))
            break;
    }
    if (!PyErr_Occurred()) {
        Hearing hearing;
        Listener listener = listen_with(&hearing, module);
        Held all = {parts, held, n_sets, sets.buf};
        const Level *level = level_of(module);
        hearing.released = PyEval_SaveThread();
        int done = compare_all(level, &all, left.buf, right.buf, common.buf, n, &listener);
        PyEval_RestoreThread(hearing.released);
        if (done == SET_OUTSIDE)
            PyErr_SetString(PyExc_IndexError, "a set is outside the parts");
        else if (done == WORK_DONE)
            result = Py_NewRef(Py_None);
    }
    for (Py_ssize_t i = 0; i < held; i++)
        PyBuffer_Release(&parts[i]);
    PyMem_Free(parts);
    return result;
}

PyMethodDef set_methods[] = {
    {"shingle_texts", py_shingle_texts, METH_VARARGS, shingle_texts_doc},
    {"compare_sets", py_compare_sets, METH_VARARGS, compare_sets_doc},
    {NULL, NULL, 0, NULL},
};
