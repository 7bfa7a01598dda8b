/* The Python interface of row_sums.h. It holds the interpreter's lock, because it reads Python's values. */

#include "binding.h"

#include "row_sums.h"

typedef struct {
    uint8_t *start, *end;
    size_t size;
} Line;

/* Make room after the end of a line, and for one byte more: 0 with an exception set, or 1. */
static int has_room(Line *line, size_t more)
{
    size_t used = (size_t)(line->end - line->start);
    if (line->size - used > more)
        return 1;
    size_t size = 2 * (used + more) + 1;
    uint8_t *moved = PyMem_Realloc(line->start, size);
    if (!moved) {
        PyErr_NoMemory();
        return 0;
    }
    *line = (Line){moved, moved + used, size};
    return 1;
}

/* Append a value of a row: 0 with an exception set, or 1. */
static int append(Line *line, PyObject *value)
{
    if (value == Py_None) {
        if (!has_room(line, 4))
            return 0;
        line->end = (uint8_t *)memcpy(line->end, "null", 4) + 4;
    } else if (PyUnicode_Check(value)) {
        Py_ssize_t length;
        const char *text = PyUnicode_AsUTF8AndSize(value, &length);
        if (!text || !has_room(line, JSON_TEXT_BYTES((size_t)length)))
            return 0;
        line->end = json_text(line->end, (const uint8_t *)text, (size_t)length);
    } else if (PyBytes_Check(value)) {
        size_t length = (size_t)PyBytes_GET_SIZE(value);
        if (!has_room(line, JSON_HEX_BYTES(length)))
            return 0;
        line->end = json_hex(line->end, (const uint8_t *)PyBytes_AS_STRING(value), length);
    } else if (PyLong_CheckExact(value)) {
        long long number = PyLong_AsLongLong(value);
        if ((number == -1 && PyErr_Occurred()) || !has_room(line, JSON_WHOLE_BYTES))
            return 0;
        line->end = json_whole(line->end, number);
    } else {
        PyErr_Format(PyExc_TypeError, "a row has a value of the type %.100s",
                     Py_TYPE(value)->tp_name);
        return 0;
    }
    return 1;
}

/* The checksum of the values at one place of all columns; NULL with an exception set. */
static PyObject *sum_of(Line *line, PyObject *columns, Py_ssize_t place)
{
    line->end = line->start;
    for (Py_ssize_t number = 0; number < PyTuple_GET_SIZE(columns); number++) {
        PyObject *column = PyTuple_GET_ITEM(columns, number);
        if (!has_room(line, 1))
            return NULL;
        *line->end++ = number ? ',' : '[';
        if (!append(line, PyTuple_GET_ITEM(column, place)))
            return NULL;
    }
    *line->end++ = ']'; /* the one byte more */
    return PyLong_FromUnsignedLong(crc32_of(line->start, (size_t)(line->end - line->start)));
}

PyDoc_STRVAR(row_checksums_doc, "row_checksums(columns, /)\n--\n\n"
             "Return the checksum of each row, as a list: its CRC-32 as a JSON array.\n\n"
             "columns is a tuple of tuples of one length, of str, int, bytes and None. Raises a TypeError\n"
             "for other values, an OverflowError for whole numbers of more than 64 bits, and a ValueError\n"
             "for texts that are not UTF-8 or columns of different lengths.");

static PyObject *py_row_checksums(PyObject *module, PyObject *columns)
{
    (void)module;
    if (!PyTuple_Check(columns) || !PyTuple_GET_SIZE(columns)) {
        PyErr_SetString(PyExc_TypeError, "columns must be a tuple of at least one column");
        return NULL;
    }
    Py_ssize_t n_rows = -1;
    for (Py_ssize_t number = 0; number < PyTuple_GET_SIZE(columns); number++) {
        PyObject *column = PyTuple_GET_ITEM(columns, number);
        if (!PyTuple_Check(column)) {
            PyErr_SetString(PyExc_TypeError, "a column must be a tuple");
            return NULL;
        }
        if (n_rows >= 0 && PyTuple_GET_SIZE(column) != n_rows) {
            PyErr_SetString(PyExc_ValueError, "columns have different lengths");
            return NULL;
        }
        n_rows = PyTuple_GET_SIZE(column);
    }
    PyObject *result = PyList_New(n_rows);
    Line line = {0};
    for (Py_ssize_t place = 0; result && place < n_rows; place++) {
        PyObject *sum = sum_of(&line, columns, place);
        if (sum)
            PyList_SET_ITEM(result, place, sum);
        else
            Py_CLEAR(result);
    }
    PyMem_Free(line.start);
    return result;
}

PyMethodDef row_methods[] = {
    {"row_checksums", py_row_checksums, METH_O, row_checksums_doc},
    {NULL, NULL, 0, NULL},
};
