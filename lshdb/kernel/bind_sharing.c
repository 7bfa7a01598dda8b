/* The Python interface of sharing.c. */

#include "binding.h"

#include <stdlib.h>

/* More buckets than that would need more memory than values that a table can hold. */
enum { MOST_BITS = 30 };

static PyObject *say_what(int undone)
{
    if (undone != SHARING_CHANGED)
        return say_why(undone);
    PyErr_SetString(PyExc_ValueError, "counts, starts or owners are outside the sets");
    return NULL;
}

/* Whether `starts` has a number for each bucket of so many bits, and one more. */
static int is_bits(int bits, const Py_buffer *starts)
{
    if (bits < 1 || bits > MOST_BITS) {
        PyErr_SetString(PyExc_ValueError, "bits is out of range");
        return 0;
    }
    return is_length(starts, ((Py_ssize_t)1 << bits) + 1, 4, "starts");
}

PyDoc_STRVAR(table_sets_doc,
"table_sets(hashes, counts, bits, starts, values, owners)\n--\n\n"
"Sort the values of sets by their highest `bits` bits. hashes (uint64) has the values of one set after\n"
"the other, counts (int64) the number of each; values (uint64) and owners (uint32) get the values and\n"
"the numbers of their sets, starts (uint32, one more than buckets) where a bucket begins.");

static PyObject *py_table_sets(PyObject *module, PyObject *args)
{
    int bits;
    HELD Py_buffer hashes = {0}, counts = {0}, starts = {0}, values = {0}, owners = {0};
    if (!PyArg_ParseTuple(args, "y*y*iw*w*w*", &hashes, &counts, &bits, &starts, &values, &owners))
        return NULL;
    Py_ssize_t n = hashes.len / 8, n_sets = counts.len / 8;
    if (!is_bits(bits, &starts) || !is_length(&hashes, n, 8, "hashes")
        || !is_length(&counts, n_sets, 8, "counts") || !is_length(&values, n, 8, "values")
        || !is_length(&owners, n, 4, "owners"))
        return NULL;
    if (n > UINT32_MAX || n_sets > UINT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "a table has at most 4,294,967,295 values");
        return NULL;
    }
    Hearing hearing;
    Listener listener = listen_with(&hearing, module);
    hearing.released = PyEval_SaveThread();
    int undone = table_sets(hashes.buf, (size_t)n, counts.buf, (size_t)n_sets, bits, starts.buf,
                            values.buf, owners.buf, &listener);
    PyEval_RestoreThread(hearing.released);
    return undone ? say_what(undone) : Py_NewRef(Py_None);
}

PyDoc_STRVAR(find_sharing_doc,
"find_sharing(bits, starts, values, owners, sizes, hashes, counts, is_part, most, least, below)\n--\n\n"
"Return which sets of a table share values with each probe: a bytearray of (probe, set, shared values),\n"
"native int64. sizes (int64) has the number of values of each set; hashes and counts are the probes'. A\n"
"set's level is its Jaccard similarity, or with is_part the share of the probe's values. Sets below the\n"
"level `least`, not below the level `below`, or below the `most`-th best of a probe, are left out.");

static PyObject *py_find_sharing(PyObject *module, PyObject *args)
{
    int bits, is_part;
    Py_ssize_t most;
    double least, below;
    HELD Py_buffer starts = {0}, values = {0}, owners = {0}, sizes = {0}, hashes = {0},
                   counts = {0};
    if (!PyArg_ParseTuple(args, "iy*y*y*y*y*y*pndd", &bits, &starts, &values, &owners, &sizes,
                          &hashes, &counts, &is_part, &most, &least, &below))
        return NULL;
    Py_ssize_t n = values.len / 8, n_sets = sizes.len / 8, n_hashes = hashes.len / 8,
               n_probes = counts.len / 8;
    if (!is_bits(bits, &starts) || !is_length(&values, n, 8, "values")
        || !is_length(&owners, n, 4, "owners") || !is_length(&sizes, n_sets, 8, "sizes")
        || !is_length(&hashes, n_hashes, 8, "hashes") || !is_length(&counts, n_probes, 8, "counts"))
        return NULL;
    if (most < 1) {
        PyErr_SetString(PyExc_ValueError, "most is out of range");
        return NULL;
    }
    SetTable table = {bits,      starts.buf,     values.buf, owners.buf,
                      (size_t)n, (size_t)n_sets, sizes.buf};
    Wish wish = {is_part, (size_t)most, least, below};
    Sharing found = {0};
    Hearing hearing;
    Listener listener = listen_with(&hearing, module);
    hearing.released = PyEval_SaveThread();
    int undone = find_sharing(&table, hashes.buf, (size_t)n_hashes, counts.buf, (size_t)n_probes,
                              &wish, &found, &listener);
    PyEval_RestoreThread(hearing.released);
    PyObject *result = undone ? say_what(undone)
                              : PyByteArray_FromStringAndSize((const char *)found.triples,
                                                              (Py_ssize_t)(24 * found.n));
    free(found.triples);
    return result;
}

PyMethodDef sharing_methods[] = {
    {"table_sets", py_table_sets, METH_VARARGS, table_sets_doc},
    {"find_sharing", py_find_sharing, METH_VARARGS, find_sharing_doc},
    {NULL, NULL, 0, NULL},
};
