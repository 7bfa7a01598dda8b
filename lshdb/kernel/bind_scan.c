/* The Python interface of scan.c. */

#include "binding.h"

#include <string.h>

PyDoc_STRVAR(count_in_rows_doc,
"count_in_rows(queries, rows, words, slot_bits, width, first, counts)\n--\n\n"
"Count the equal slots of each query with each row (uint16 of `words` words, of slots of 16 bits or 1).\n"
"counts (uint16) has a line of `width` for each query; the rows' counts go there from `first` on.");

static PyObject *py_count_in_rows(PyObject *module, PyObject *args)
{
    const Level *level = level_of(module);
    Py_ssize_t words, width, first;
    int slot_bits;
    HELD Py_buffer queries = {0}, rows = {0}, counts = {0};
    if (!PyArg_ParseTuple(args, "y*y*ninnw*", &queries, &rows, &words, &slot_bits, &width, &first,
                          &counts))
        return NULL;
    if ((slot_bits != 1 && slot_bits != WORD_BITS) || words < 1
        || words > (slot_bits == 1 ? UINT16_MAX / WORD_BITS : MAX_NUM_PERM)) {
        PyErr_SetString(PyExc_ValueError, "words or slot_bits is out of range");
        return NULL;
    }
    Py_ssize_t n_queries = queries.len / (WORD_BYTES * words),
               n_rows = rows.len / (WORD_BYTES * words);
    if (!is_length(&queries, n_queries * words, WORD_BYTES, "queries")
        || !is_length(&rows, n_rows * words, WORD_BYTES, "rows")
        || !is_length(&counts, multiply(n_queries, width), 2, "counts"))
        return NULL;
    if (first < 0 || first > width || n_rows > width - first) {
        PyErr_SetString(PyExc_ValueError, "the rows are outside the counts");
        return NULL;
    }
    Hearing hearing;
    Listener listener = listen_with(&hearing, module);
    hearing.released = PyEval_SaveThread();
    int undone = count_in_rows(level, queries.buf, (size_t)n_queries, rows.buf, (size_t)n_rows,
                               (size_t)words, slot_bits, (uint16_t *)counts.buf + first,
                               (size_t)width, &listener);
    PyEval_RestoreThread(hearing.released);
    return undone ? say_why(undone) : Py_NewRef(Py_None);
}

PyDoc_STRVAR(rank_counts_doc,
"rank_counts(counts, least, best)\n--\n\n"
"Write the places of the highest counts (uint16) that are at least `least` into best (int64), the\n"
"highest first and equal ones in order of place, as many as it has room for. Returns how many there\n"
"are in all.");

static PyObject *py_rank_counts(PyObject *module, PyObject *args)
{
    (void)module;
    HELD Py_buffer counts = {0}, best = {0};
    Py_ssize_t least;
    if (!PyArg_ParseTuple(args, "y*nw*", &counts, &least, &best)
        || !is_length(&counts, counts.len / 2, 2, "counts")
        || !is_length(&best, best.len / 8, 8, "best"))
        return NULL;
    if (least < 0 || least > UINT16_MAX) {
        PyErr_SetString(PyExc_ValueError, "least is out of range");
        return NULL;
    }
    size_t found = 0;
    PyThreadState *released = PyEval_SaveThread();
    int undone = rank_counts(counts.buf, (size_t)(counts.len / 2), (uint16_t)least, best.buf,
                             (size_t)(best.len / 8), &found);
    PyEval_RestoreThread(released);
    return undone ? say_why(undone) : PyLong_FromSize_t(found);
}

PyMethodDef scan_methods[] = {
    {"count_in_rows", py_count_in_rows, METH_VARARGS, count_in_rows_doc},
    {"rank_counts", py_rank_counts, METH_VARARGS, rank_counts_doc},
    {NULL, NULL, 0, NULL},
};
