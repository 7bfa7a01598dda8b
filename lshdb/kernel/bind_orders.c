/* The Python interface of orders.c. */

#include "bind_orders.h"
#include "bucket_layout.h"

enum { HEARD_EACH = 256 };

PyDoc_STRVAR(sort_orders_doc,
"sort_orders(keys, n_orders, planes)\n--\n\n"
"Sort each column of bucket keys (int64, shape (n, n_orders)) into planes (uint32, shape\n"
"(2, n_orders, n)): the buckets, and the rows that they are of.");

static PyObject *py_sort_orders(PyObject *module, PyObject *args)
{
    Py_ssize_t n_orders;
    HELD Py_buffer keys = {0}, planes = {0};
    if (!PyArg_ParseTuple(args, "y*nw*", &keys, &n_orders, &planes))
        return NULL;
    if (n_orders < 1 || n_orders > 256) {
        PyErr_SetString(PyExc_ValueError, "n_orders is out of range");
        return NULL;
    }
    Py_ssize_t n = keys.len / 8 / n_orders;
    if (n > UINT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "there are too many keys");
        return NULL;
    }
    if (!is_length(&keys, multiply(n, n_orders), 8, "keys")
        || !is_length(&planes, multiply(multiply(n, n_orders), 2), 4, "planes"))
        return NULL;
    Hearing hearing;
    Listener listener = listen_with(&hearing, module);
    hearing.released = PyEval_SaveThread();
    int undone = sort_orders(keys.buf, (size_t)n, (size_t)n_orders, planes.buf, &listener);
    PyEval_RestoreThread(hearing.released);
    return undone ? say_why(undone) : Py_NewRef(Py_None);
}

void let_go(Given *given)
{
    for (Py_ssize_t i = 0; i < given->n && given->buffers; i++)
        PyBuffer_Release(&given->buffers[i]);
    PyMem_Free(given->buffers);
    PyMem_Free(given->orders);
}

static int is_order(PyObject *item, Order *order, Py_buffer *buffer)
{
    PyObject *source;
    Py_ssize_t n, n_orders;
    long long first, seed;
    if (!PyTuple_Check(item)) {
        PyErr_SetString(PyExc_TypeError, "an order is a tuple");
        return 0;
    }
    if (!PyArg_ParseTuple(item, "OnnLL", &source, &n, &n_orders, &first, &seed))
        return 0;
    if (n < 0 || n > UINT32_MAX || n_orders < 1 || n_orders > 256 || first < 0
        || first > INT64_MAX - n) {
        PyErr_SetString(PyExc_ValueError, "the shape of an order is out of range");
        return 0;
    }
    *order =
        (Order){NULL, -1, cell_bits((size_t)n), (size_t)n, (size_t)n_orders, first, (uint64_t)seed};
    if (PyLong_Check(source)) {
        long descriptor = PyLong_AsLong(source);
        if (descriptor < 0 || descriptor > INT_MAX) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_ValueError, "the descriptor is out of range");
            return 0;
        }
        order->descriptor = (int)descriptor;
        return 1;
    }
    if (PyObject_GetBuffer(source, buffer, PyBUF_SIMPLE))
        return 0;
    order->bytes = buffer->buf;
    return is_length(buffer, (Py_ssize_t)order_bytes(order), 1, "an order");
}

static int take_each(PyObject *list, Given *given)
{
    if (!PyList_Check(list)) {
        PyErr_SetString(PyExc_TypeError, "orders is not a list");
        return 0;
    }
    Py_ssize_t n = PyList_GET_SIZE(list);
    given->orders = PyMem_Calloc((size_t)n + 1, sizeof *given->orders);
    given->buffers = PyMem_Calloc((size_t)n + 1, sizeof *given->buffers);
    if (!given->orders || !given->buffers) {
        PyErr_NoMemory();
        return 0;
    }
    /* Taking a buffer may run code of its owner, which may change the list. */
    for (; given->n < n && given->n < PyList_GET_SIZE(list); given->n++) {
        PyObject *item = Py_NewRef(PyList_GET_ITEM(list, given->n));
        int taken = is_order(item, &given->orders[given->n], &given->buffers[given->n]);
        Py_DECREF(item);
        if (!taken) {
            given->n++;
            return 0;
        }
    }
    return 1;
}

int take_orders(PyObject *list, Given *given)
{
    int taken = take_each(list, given);
    if (!taken)
        let_go(given);
    return taken;
}

PyObject *say_failure(int failure)
{
    if (failure == ORDER_UNREADABLE)
        return PyErr_SetFromErrno(PyExc_OSError);
    if (failure == ORDER_DAMAGED) {
        PyErr_SetString(PyExc_ValueError,
                        "an order ends too early, names a row it does not have, or is damaged");
        return NULL;
    }
    return say_why(failure);
}

PyDoc_STRVAR(find_keys_doc,
"find_keys(orders, keys, limit, counts)\n--\n\n"
"Return the signatures below limit in each of some buckets (int64), one bucket after the other, as bytes of\n"
"int64, and put their numbers into counts (int64, one for each key). orders is a list of tuples (source, n,\n"
"n_orders, first, seed): bytes as of params/order_layout.py, or the descriptor of a file with 128 bytes before\n"
"them; the signature of the first row; and the seed of their sums. The last order of each is that of band 255.\n"
"Raises OSError if a file cannot be read, and ValueError if it ends too early or is not what was written.");

static PyObject *py_find_keys(PyObject *module, PyObject *args)
{
    PyObject *list;
    long long limit;
    HELD Py_buffer keys = {0}, counts = {0};
    if (!PyArg_ParseTuple(args, "Oy*Lw*", &list, &keys, &limit, &counts))
        return NULL;
    Py_ssize_t n = keys.len / 8;
    if (!is_length(&keys, n, 8, "keys") || !is_length(&counts, n, 8, "counts"))
        return NULL;
    Given given = {0};
    if (!take_orders(list, &given))
        return NULL;
    Hearing hearing;
    Listener listener = listen_with(&hearing, module);
    Found found = {0};
    int failure = 0, reason = 0;
    const int64_t *wanted = keys.buf;
    hearing.released = PyEval_SaveThread();
    for (Py_ssize_t i = 0; i < n && !failure; i++) {
        Py_ssize_t in_group = i % KEYS_AT_ONCE;
        size_t before = found.n, group = (size_t)(n - i < KEYS_AT_ONCE ? n - i : KEYS_AT_ONCE);
        for (Py_ssize_t j = 0; j < given.n && !in_group; j++)
            approach_keys(&given.orders[j], wanted + i, group);
        for (Py_ssize_t j = 0; j < given.n && !failure; j++)
            failure = find_key(&given.orders[j], wanted[i], limit, &found);
        ((int64_t *)counts.buf)[i] = (int64_t)(found.n - before);
        reason = errno;
        if (i % HEARD_EACH == HEARD_EACH - 1 && is_stopped(&listener))
            failure = WORK_STOPPED;
    }
    PyEval_RestoreThread(hearing.released);
    let_go(&given);
    errno = reason;
    PyObject *result = failure
                           ? say_failure(failure)
                           : PyBytes_FromStringAndSize((const char *)found.ids,
                                                       (Py_ssize_t)(found.n * sizeof *found.ids));
    free(found.ids);
    return result;
}

PyDoc_STRVAR(group_keys_doc,
"group_keys(orders, first, last, limit, above)\n--\n\n"
"Return the buckets from key first to key last (inclusive, of one band, and not of band 255) that have more\n"
"than above signatures below limit: their keys, sizes and members (bytes of int64), in order of key, and the\n"
"members of each in the order of the orders. orders is as for find_keys(), and so are the errors.");

static PyObject *bytes_of(const Found *found)
{
    return PyBytes_FromStringAndSize((const char *)found->ids,
                                     (Py_ssize_t)(found->n * sizeof *found->ids));
}

static PyObject *py_group_keys(PyObject *module, PyObject *args)
{
    PyObject *list;
    long long first, last, limit;
    Py_ssize_t above;
    if (!PyArg_ParseTuple(args, "OLLLn", &list, &first, &last, &limit, &above))
        return NULL;
    size_t band = band_of(first);
    if (band != band_of(last) || band >= CONTENT_BAND || above < 0) {
        PyErr_SetString(PyExc_ValueError, "the range is not of one band, or above is negative");
        return NULL;
    }
    Given given = {0};
    if (!take_orders(list, &given))
        return NULL;
    Hearing hearing;
    Listener listener = listen_with(&hearing, module);
    Groups groups = {0};
    hearing.released = PyEval_SaveThread();
    int failure = group_keys(given.orders, (size_t)given.n, band, bucket_of(first), bucket_of(last),
                             limit, (size_t)above, &groups, &listener);
    int reason = errno;
    PyEval_RestoreThread(hearing.released);
    let_go(&given);
    errno = reason;
    PyObject *result = failure ? say_failure(failure)
                               : Py_BuildValue("(NNN)", bytes_of(&groups.keys),
                                               bytes_of(&groups.sizes), bytes_of(&groups.members));
    free(groups.keys.ids);
    free(groups.sizes.ids);
    free(groups.members.ids);
    return result;
}

PyDoc_STRVAR(pack_cells_doc,
"pack_cells(buckets, rows, bits, first, end, place, seed, order, directory, postings)\n--\n\n"
"Lay out the sorted postings (uint32 each) of cells first to end (left out) of an order with 2^bits cells, as\n"
"params/order_layout.py says: their entries of the directory, and themselves. place is that of the first\n"
"posting. Raises ValueError if a bucket is not of these cells, or they are not sorted.");

static PyObject *py_pack_cells(PyObject *module, PyObject *args)
{
    (void)module;
    Py_ssize_t bits, first, end, place, number;
    long long seed;
    HELD Py_buffer buckets = {0}, rows = {0}, directory = {0}, postings = {0};
    if (!PyArg_ParseTuple(args, "y*y*nnnnLnw*w*", &buckets, &rows, &bits, &first, &end, &place,
                          &seed, &number, &directory, &postings))
        return NULL;
    if (bits < 0 || bits > 31 || first < 0 || end < first || end > (Py_ssize_t)1 << bits
        || place < 0 || number < 0 || number > 255) {
        PyErr_SetString(PyExc_ValueError, "the cells are out of range");
        return NULL;
    }
    Py_ssize_t n = buckets.len / 4;
    if (!is_length(&buckets, n, 4, "buckets") || !is_length(&rows, n, 4, "rows")
        || !is_length(&directory, multiply(end - first, 2), 4, "directory")
        || !is_length(&postings, multiply(n, bits > 12 && bits < 16 ? 8 : 6), 1, "postings"))
        return NULL;
    int packed;
    Py_BEGIN_ALLOW_THREADS packed = pack_cells(
        buckets.buf, rows.buf, (size_t)n, (unsigned)bits, (size_t)first, (size_t)end, (size_t)place,
        order_seed((uint64_t)seed, (size_t)number), directory.buf, postings.buf);
    Py_END_ALLOW_THREADS if (!packed)
    {
        PyErr_SetString(PyExc_ValueError, "a bucket is not of these cells, or they are not sorted");
        return NULL;
    }
    Py_RETURN_NONE;
}

PyMethodDef order_methods[] = {
    {"pack_cells", py_pack_cells, METH_VARARGS, pack_cells_doc},
    {"sort_orders", py_sort_orders, METH_VARARGS, sort_orders_doc},
    {"find_keys", py_find_keys, METH_VARARGS, find_keys_doc},
    {"group_keys", py_group_keys, METH_VARARGS, group_keys_doc},
    {NULL, NULL, 0, NULL},
};
