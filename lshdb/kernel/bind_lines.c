/* The Python interface of lines.c: a block of lines of JSON -> keys, texts and sources. */

#include "binding.h"

#include "lines.h"

#define MOST_KEY_BYTES 1024

/* Room for what escapes stand for. */
typedef struct {
    uint8_t *bytes;
    size_t size;
} Scratch;

static PyObject *ascii_of(const uint8_t *bytes, size_t length)
{
    PyObject *text = PyUnicode_New((Py_ssize_t)length, 127);
    if (text && length)
        memcpy(PyUnicode_DATA(text), bytes, length);
    return text;
}

/* The str of a span; NULL with an exception. */
static PyObject *text_of_span(const Span *span, Scratch *scratch)
{
    const uint8_t *bytes = span->bytes;
    size_t length = span->length;
    if (span->is_escaped) {
        if (scratch->size < length) {
            uint8_t *larger = realloc(scratch->bytes, 2 * length);
            if (!larger)
                return PyErr_NoMemory();
            *scratch = (Scratch){larger, 2 * length};
        }
        length = unescape(scratch->bytes, span);
        bytes = scratch->bytes;
    } else if (span->is_ascii) {
        return ascii_of(bytes, length);
    }
    return PyUnicode_DecodeUTF8((const char *)bytes, (Py_ssize_t)length, NULL);
}

/* The name of the file, a colon and the number of the line. */
static PyObject *source_of(PyObject *before, Py_ssize_t number)
{
    if (!PyUnicode_IS_ASCII(before))
        return PyUnicode_FromFormat("%U%zd", before, number);
    char digits[24];
    int many = snprintf(digits, sizeof digits, "%zd", number);
    Py_ssize_t length = PyUnicode_GET_LENGTH(before);
    PyObject *source = PyUnicode_New(length + many, 127);
    if (source) {
        memcpy(PyUnicode_DATA(source), PyUnicode_DATA(before), (size_t)length);
        memcpy((char *)PyUnicode_DATA(source) + length, digits, (size_t)many);
    }
    return source;
}

/* Append an object, or fail if there is none; takes the reference. */
static int append(PyObject *list, PyObject *object)
{
    int failed = !object || PyList_Append(list, object);
    Py_XDECREF(object);
    return failed;
}

PyDoc_STRVAR(scan_lines_doc,
"scan_lines(block, at, number, before, key_field, text_field, longest, keys, texts, sources)\n--\n\n"
"Append to three lists the key, the text and the source (`before` and its number) of each line of JSON\n"
"in block from `at` on, up to the first line that is not plainly an object with both fields, or has more\n"
"than `longest` bytes. Each line ends with a line feed; number is that of the lines before. Returns where\n"
"that line begins, or the block's length, and the number of the lines before it.");

static PyObject *py_scan_lines(PyObject *module, PyObject *args)
{
    (void)module;
    HELD Py_buffer block = {0};
    Py_ssize_t at, number, longest, key_length, text_length;
    const char *key_field, *text_field;
    PyObject *before, *keys, *texts, *sources;
    if (!PyArg_ParseTuple(args, "y*nnUs#s#nO!O!O!", &block, &at, &number, &before, &key_field,
                          &key_length, &text_field, &text_length, &longest, &PyList_Type, &keys,
                          &PyList_Type, &texts, &PyList_Type, &sources))
        return NULL;
    if (at < 0 || at > block.len || longest < 0) {
        PyErr_SetString(PyExc_ValueError, "at or longest is out of range");
        return NULL;
    }
    Names names = {(const uint8_t *)key_field, (const uint8_t *)text_field, (size_t)key_length,
                   (size_t)text_length};
    const uint8_t *bytes = block.buf;
    Scratch scratch = {0};
    int failed = 0;
    while (at < block.len && !failed) {
        const uint8_t *feed = memchr(bytes + at, '\n', (size_t)(block.len - at));
        size_t length = feed ? (size_t)(feed - bytes - at) : 0;
        Record record;
        int kind = feed && length <= (size_t)longest
                       ? scan_line(bytes + at, length, &names, &record)
                       : LINE_ODD;
        if (kind == LINE_ODD)
            break;
        if (kind == LINE_RECORD) {
            PyObject *key = text_of_span(&record.key, &scratch);
            Py_ssize_t size = 0;
            failed = !key || !PyUnicode_AsUTF8AndSize(key, &size);
            if (!failed && (!size || size > MOST_KEY_BYTES)) {
                Py_DECREF(key);
                break;
            }
            failed = failed || PyList_Append(keys, key)
                     || append(texts, text_of_span(&record.text, &scratch))
                     || append(sources, source_of(before, number + 1));
            Py_XDECREF(key);
        }
        at += (Py_ssize_t)length + 1;
        number++;
    }
    free(scratch.bytes);
    return failed ? NULL : Py_BuildValue("nn", at, number);
}

PyMethodDef line_methods[] = {
    {"scan_lines", py_scan_lines, METH_VARARGS, scan_lines_doc},
    {NULL, NULL, 0, NULL},
};
