/* The kernel's Python interface. Every pointer from Python has its length checked here first.
   Functions that work long release the interpreter's lock. What use_level(), use_pieces() and
   hear_with() set belongs to one module object, of one interpreter, and a call reads it once. */

#include "binding.h"

#include <pthread.h>

#include "row_sums.h"

/* Copy the tokens of a list or tuple into the workspace. Returns their number, or -1 with an exception. */
static Py_ssize_t take_tokens(Workspace *work, PyObject *tokens, Hearing *hearing)
{
    Py_ssize_t n = PySequence_Fast_GET_SIZE(tokens), length, bytes = 0;
    PyObject **items = PySequence_Fast_ITEMS(tokens);
    for (Py_ssize_t i = 0; i < n; i++) {
        if (!PyUnicode_Check(items[i])) {
            PyErr_Format(PyExc_TypeError, "token %zd is %.100s, expected str", i,
                         Py_TYPE(items[i])->tp_name);
            return -1;
        }
        if (!PyUnicode_AsUTF8AndSize(items[i], &length))
            return -1;
        if (!(i & 0xFFF) && hear_with_lock(hearing))
            return -1;
        bytes += length + 1;
    }
    if (reserve_tokens(work, (size_t)n, (size_t)bytes)) {
        PyErr_NoMemory();
        return -1;
    }
    size_t written = 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        if (!(i & 0xFFFF) && hear_with_lock(hearing))
            return -1;
        const char *token = PyUnicode_AsUTF8AndSize(items[i], &length); /* cached above */
        work->starts[i] = written;
        memcpy(work->text + written, token, (size_t)length);
        written += (size_t)length;
        work->text[written++] = ' ';
    }
    work->starts[n] = written;
    memset(work->text + written, 0, PADDING);
    return n;
}

/* Sign the texts among the contents, all without the lock; 0, or -1 with an exception set. */
static int sign_strings(Workspace *work, const Signing *job, PyObject *contents, Hearing *hearing)
{
    Py_ssize_t n = PyTuple_GET_SIZE(contents);
    const char **texts = PyMem_Malloc((size_t)(n + 1) * sizeof *texts);
    Py_ssize_t *lengths = PyMem_Malloc((size_t)(n + 1) * sizeof *lengths);
    int failed = !texts || !lengths;
    if (failed)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < n && !failed; i++) {
        PyObject *content = PyTuple_GET_ITEM(contents, i);
        texts[i] = NULL;
        if (PyUnicode_Check(content)) {
            texts[i] = PyUnicode_AsUTF8AndSize(content, &lengths[i]);
            failed = !texts[i];
        } else if (!PyList_Check(content) && !PyTuple_Check(content)) {
            PyErr_Format(PyExc_TypeError, "content %zd is %.100s, expected str or a list of str", i,
                         Py_TYPE(content)->tp_name);
            failed = 1;
        }
    }
    if (!failed) {
        hearing->released = PyEval_SaveThread();
        for (Py_ssize_t i = 0; i < n && !failed; i++)
            if (texts[i])
                failed = sign_text(work, job, (size_t)i, (const uint8_t *)texts[i],
                                   (size_t)lengths[i], work->listener);
        PyEval_RestoreThread(hearing->released);
        if (failed)
            say_why(failed);
    }
    PyMem_Free(texts);
    PyMem_Free(lengths);
    return failed ? -1 : 0;
}

/* Sign the lists of tokens among the contents; each is copied under the lock and signed without it. */
static int sign_lists(Workspace *work, const Signing *job, PyObject *contents, Hearing *hearing)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(contents); i++) {
        PyObject *content = PyTuple_GET_ITEM(contents, i);
        if (PyUnicode_Check(content))
            continue;
        /* A tuple of our own, which no other thread changes. A subclass's __iter__ is not called, because
           other code could see the tuple before Python code has filled it. */
        PyObject *tokens = PyList_Check(content) ? PyList_AsTuple(content) : Py_NewRef(content);
        Py_ssize_t n = tokens ? take_tokens(work, tokens, hearing) : -1;
        Py_XDECREF(tokens);
        if (n < 0)
            return -1;
        hearing->released = PyEval_SaveThread();
        int failed =
            sign_found(work, job, (size_t)i,
                       n ? shingle_tokens(work, (size_t)n, 1, (size_t)job->k, job->bag) : 0);
        if (!failed && is_stopped(work->listener))
            failed = WORK_STOPPED;
        PyEval_RestoreThread(hearing->released);
        if (failed) {
            say_why(failed);
            return -1;
        }
    }
    return 0;
}

PyDoc_STRVAR(sign_contents_doc,
"sign_contents(contents, unit, k, bag, scheme, num_perm, constants, rows, counts)\n--\n\n"
"Sign canonical contents, str or lists of str, into rows (n, num_perm) of uint16, and put the number\n"
"of distinct shingles of each into counts (n,) of int64; a row without shingles stays unchanged.\n"
"constants is the scheme's 2 * num_perm numbers (uint64).");

static PyObject *py_sign_contents(PyObject *module, PyObject *args)
{
    PyObject *contents, *result = NULL;
    Signing job = {0};
    HELD Py_buffer constants = {0}, rows = {0}, counts = {0};
    if (!PyArg_ParseTuple(args, "O!inpiny*w*w*", &PyList_Type, &contents, &job.unit, &job.k,
                          &job.bag, &job.scheme, &job.num_perm, &constants, &rows, &counts))
        return NULL;
    job.constants = constants.buf;
    job.rows = rows.buf;
    job.counts = counts.buf;
    /* A tuple of our own keeps the contents alive while another thread may change the list. */
    PyObject *kept = PyList_AsTuple(contents);
    Py_ssize_t n = kept ? PyTuple_GET_SIZE(kept) : 0;
    if (kept && is_shingling(job.unit, job.k) && is_scheme(job.scheme, job.num_perm, &constants)
        && is_length(&rows, multiply(n, job.num_perm), WORD_BYTES, "rows")
        && is_length(&counts, n, 8, "counts")) {
        Hearing hearing;
        Listener listener = listen_with(&hearing, module);
        Workspace work = {.level = level_of(module), .listener = &listener};
        if (!sign_strings(&work, &job, kept, &hearing) && !sign_lists(&work, &job, kept, &hearing))
            result = Py_NewRef(Py_None);
        release(&work);
    }
    Py_XDECREF(kept);
    return result;
}

PyDoc_STRVAR(shingle_text_doc,
"shingle_text(text, unit, k, bag)\n--\n\n"
"Return the distinct shingle hashes of a normalised text: an unsorted bytearray of native uint64.");

static PyObject *py_shingle_text(PyObject *module, PyObject *args)
{
    PyObject *text, *result = NULL;
    int unit, bag;
    Py_ssize_t k, length;
    if (!PyArg_ParseTuple(args, "Uinp", &text, &unit, &k, &bag) || !is_shingling(unit, k))
        return NULL;
    const char *bytes = PyUnicode_AsUTF8AndSize(text, &length);
    if (!bytes)
        return NULL;
    uint64_t *hashes = NULL;
    size_t found = 0;
    Hearing hearing;
    Listener listener = listen_with(&hearing, module);
    Workspace work = {.level = level_of(module), .listener = &listener};
    int done = WORK_DONE, is_whole = bag || !is_long((size_t)length, &listener);
    hearing.released = PyEval_SaveThread();
    if (is_whole) {
        ptrdiff_t many =
            shingle(&work, (const uint8_t *)bytes, (size_t)length, unit, (size_t)k, bag);
        done = many < 0 ? (int)many : WORK_DONE;
        found = many < 0 ? 0 : (size_t)many;
    } else {
        done = shingle_long(&work, (const uint8_t *)bytes, (size_t)length, unit, (size_t)k, &hashes,
                            &found, &listener);
    }
    PyEval_RestoreThread(hearing.released);
    if (done == WORK_DONE)
        result = PyByteArray_FromStringAndSize((char *)(is_whole ? work.hashes : hashes),
                                               (Py_ssize_t)found * 8);
    else
        say_why(done);
    free(hashes);
    release(&work);
    return result;
}

PyDoc_STRVAR(sketch_doc,
"sketch(hashes, lengths, scheme, num_perm, constants, rows)\n--\n\n"
"Sketch concatenated sets of hashes (uint64), with the length of each (int64, at least 1), into rows\n"
"(n, num_perm) of uint16.");

static PyObject *py_sketch(PyObject *module, PyObject *args)
{
    int scheme;
    Py_ssize_t num_perm;
    HELD Py_buffer hashes = {0}, lengths = {0}, constants = {0}, rows = {0};
    if (!PyArg_ParseTuple(args, "y*y*iny*w*", &hashes, &lengths, &scheme, &num_perm, &constants,
                          &rows))
        return NULL;
    Py_ssize_t n = lengths.len / 8, total = 0, most = hashes.len / 8;
    const int64_t *counts = lengths.buf;
    if (!is_scheme(scheme, num_perm, &constants) || !is_length(&lengths, n, 8, "lengths")
        || !is_length(&rows, multiply(n, num_perm), WORD_BYTES, "rows"))
        return NULL;
    for (Py_ssize_t i = 0; i < n; i++) {
        if (counts[i] < 1 || counts[i] > most - total) {
            PyErr_SetString(PyExc_ValueError, "a length is below 1 or reaches past the hashes");
            return NULL;
        }
        total += (Py_ssize_t)counts[i];
    }
    if (!is_length(&hashes, total, 8, "hashes"))
        return NULL;
    /* Another thread may change the lengths, and so do the rows if they share memory: each length
       is read once and checked again. */
    int failed = 0, changed = 0;
    Hearing hearing;
    Listener listener = listen_with(&hearing, module);
    Workspace work = {.level = level_of(module), .listener = &listener};
    hearing.released = PyEval_SaveThread();
    const uint64_t *set = hashes.buf;
    for (Py_ssize_t i = 0; i < n && !failed && !changed; i++) {
        size_t count = (size_t)((volatile const int64_t *)counts)[i];
        changed = !count || count > (size_t)total;
        if (changed || (failed = reserve_hashes(&work, count)))
            break;
        memcpy(work.hashes, set, count * sizeof *set);
        failed = sketch(&work, scheme, work.hashes, count, (uint32_t)num_perm, constants.buf,
                        (uint16_t *)rows.buf + i * num_perm);
        set += count;
        total -= (Py_ssize_t)count;
        if (!failed && is_stopped(&listener))
            failed = WORK_STOPPED;
    }
    release(&work);
    PyEval_RestoreThread(hearing.released);
    if (changed)
        PyErr_SetString(PyExc_ValueError, "lengths changed while sketching");
    else if (failed)
        say_why(failed);
    return changed || failed ? NULL : Py_NewRef(Py_None);
}

/* Items between two checks for signals. */
#define ROWS_AT_ONCE 1024

PyDoc_STRVAR(bucket_keys_doc,
"bucket_keys(rows, words, slot_bits, bands, height, keys)\n--\n\n"
"Compute the bucket keys of signature rows (n, words), uint16, of slots of 16 bits or 1, into keys\n"
"(n, bands), int64.");

static PyObject *py_bucket_keys(PyObject *module, PyObject *args)
{
    int slot_bits;
    Py_ssize_t words, bands, height;
    HELD Py_buffer rows = {0}, keys = {0};
    if (!PyArg_ParseTuple(args, "y*ninnw*", &rows, &words, &slot_bits, &bands, &height, &keys))
        return NULL;
    if (!is_banding(words, slot_bits, bands, height))
        return NULL;
    Py_ssize_t n = rows.len / (WORD_BYTES * words);
    if (!is_length(&rows, multiply(n, words), WORD_BYTES, "rows")
        || !is_length(&keys, multiply(n, bands), 8, "keys"))
        return NULL;
    Hearing hearing;
    Listener listener = listen_with(&hearing, module);
    int stopped = 0;
    hearing.released = PyEval_SaveThread();
    for (Py_ssize_t i = 0; i < n && !stopped; i += ROWS_AT_ONCE) {
        size_t many = (size_t)(n - i < ROWS_AT_ONCE ? n - i : ROWS_AT_ONCE);
        bucket_keys((const uint16_t *)rows.buf + i * words, many, (size_t)words, slot_bits,
                    (size_t)bands, (size_t)height, (uint64_t *)keys.buf + i * bands);
        stopped = is_stopped(&listener);
    }
    PyEval_RestoreThread(hearing.released);
    return stopped ? NULL : Py_NewRef(Py_None);
}

PyDoc_STRVAR(count_common_doc,
"count_common(left, right)\n--\n\n"
"Return the number of values that two sorted arrays of distinct uint64 share.");

static PyObject *py_count_common(PyObject *module, PyObject *args)
{
    HELD Py_buffer left = {0}, right = {0};
    if (!PyArg_ParseTuple(args, "y*y*", &left, &right))
        return NULL;
    Py_ssize_t n = left.len / 8, m = right.len / 8;
    if (!is_length(&left, n, 8, "left") || !is_length(&right, m, 8, "right"))
        return NULL;
    Hearing hearing;
    Listener listener = listen_with(&hearing, module);
    hearing.released = PyEval_SaveThread();
    size_t common = count_common(left.buf, (size_t)n, right.buf, (size_t)m, &listener);
    PyEval_RestoreThread(hearing.released);
    return common == NOT_COUNTED ? NULL : PyLong_FromSize_t(common);
}

PyDoc_STRVAR(compare_rows_doc,
"compare_rows(left_rows, left, right_rows, right, num_perm, bands, height, equal, matched, first)\n"
"--\n\n"
"Compare row left[i] of left_rows with row right[i] of right_rows (int64; uint16 rows): the\n"
"number of equal slots, of bands that agree, and the first of them or -1 (int32 each).");

PyDoc_STRVAR(compare_bits_doc,
"compare_bits(left_rows, left, right_rows, right, words, bands, height, equal, matched, first)\n"
"--\n\n"
"Do the same for rows of `words` words whose slots are single bits.");

typedef void Comparison(const Level *level, const uint16_t *left, const uint16_t *right,
                        size_t words, size_t bands, size_t height, int32_t *equal, int32_t *matched,
                        int32_t *first);

static PyObject *compare(PyObject *module, PyObject *args, Comparison *compare_two, int slot_bits)
{
    const Level *level = level_of(module);
    Py_ssize_t words, bands, height;
    HELD Py_buffer left_rows = {0}, left_ids = {0}, right_rows = {0}, right_ids = {0};
    HELD Py_buffer equal = {0}, matched = {0}, first = {0};
    if (!PyArg_ParseTuple(args, "y*y*y*y*nnnw*w*w*", &left_rows, &left_ids, &right_rows, &right_ids,
                          &words, &bands, &height, &equal, &matched, &first)
        || !is_banding(words, slot_bits, bands, height))
        return NULL;
    Py_ssize_t n = left_ids.len / 8, outside = 0;
    Py_ssize_t lefts = left_rows.len / (WORD_BYTES * words),
               rights = right_rows.len / (WORD_BYTES * words);
    if (!is_length(&left_rows, lefts * words, WORD_BYTES, "rows")
        || !is_length(&left_ids, n, 8, "ids")
        || !is_length(&right_rows, rights * words, WORD_BYTES, "rows")
        || !is_length(&right_ids, n, 8, "ids") || !is_length(&equal, n, 4, "a result")
        || !is_length(&matched, n, 4, "a result") || !is_length(&first, n, 4, "a result"))
        return NULL;
    Hearing hearing;
    Listener listener = listen_with(&hearing, module);
    int stopped = 0;
    hearing.released = PyEval_SaveThread();
    for (Py_ssize_t i = 0; i < n && !outside && !stopped; i++) {
        /* Read once: another thread may change them, and so do the results in the same memory. */
        int64_t left = ((volatile const int64_t *)left_ids.buf)[i];
        int64_t right = ((volatile const int64_t *)right_ids.buf)[i];
        outside = left < 0 || left >= lefts || right < 0 || right >= rights;
        if (!outside)
            compare_two(level, (const uint16_t *)left_rows.buf + left * words,
                        (const uint16_t *)right_rows.buf + right * words, (size_t)words,
                        (size_t)bands, (size_t)height, (int32_t *)equal.buf + i,
                        (int32_t *)matched.buf + i, (int32_t *)first.buf + i);
        stopped = i % ROWS_AT_ONCE == ROWS_AT_ONCE - 1 && is_stopped(&listener);
    }
    PyEval_RestoreThread(hearing.released);
    if (outside)
        PyErr_SetString(PyExc_IndexError, "a row is outside the rows");
    return outside || stopped ? NULL : Py_NewRef(Py_None);
}

static PyObject *py_compare_rows(PyObject *module, PyObject *args)
{
    return compare(module, args, compare_rows, WORD_BITS);
}

static PyObject *py_compare_bits(PyObject *module, PyObject *args)
{
    return compare(module, args, compare_bits, 1);
}

PyDoc_STRVAR(compare_texts_doc,
"compare_texts(left, right, unit, k, bag)\n--\n\n"
"Return the numbers of shingles that two normalised texts share, and that each has. Their Jaccard\n"
"similarity is common / (left + right - common).");

static PyObject *py_compare_texts(PyObject *module, PyObject *args)
{
    PyObject *texts[2];
    const char *bytes[2];
    int unit, bag;
    Py_ssize_t k, lengths[2];
    if (!PyArg_ParseTuple(args, "UUinp", &texts[0], &texts[1], &unit, &k, &bag)
        || !is_shingling(unit, k))
        return NULL;
    for (int side = 0; side < 2; side++)
        if (!(bytes[side] = PyUnicode_AsUTF8AndSize(texts[side], &lengths[side])))
            return NULL;
    Hearing hearing;
    Listener listener = listen_with(&hearing, module);
    const Level *level = level_of(module);
    Workspace works[2] = {{.level = level, .listener = &listener},
                          {.level = level, .listener = &listener}};
    ptrdiff_t found[2] = {0}, common = 0;
    hearing.released = PyEval_SaveThread();
    for (int side = 0; side < 2 && common >= 0; side++)
        common = found[side] = shingle(&works[side], (const uint8_t *)bytes[side],
                                       (size_t)lengths[side], unit, (size_t)k, bag);
    if (common >= 0)
        common = count_shared(&works[0], (size_t)found[0], &works[1], (size_t)found[1]);
    release(&works[0]);
    release(&works[1]);
    PyEval_RestoreThread(hearing.released);
    if (common < 0)
        return say_why((int)common);
    return Py_BuildValue("nnn", (Py_ssize_t)common, (Py_ssize_t)found[0], (Py_ssize_t)found[1]);
}

PyDoc_STRVAR(walsh_hadamard_doc,
"walsh_hadamard(rows, size)\n--\n\n"
"Apply the Walsh-Hadamard transform to each row (float64, shape (n, size)) in place; size is a power\n"
"of two.");

static PyObject *py_walsh_hadamard(PyObject *module, PyObject *args)
{
    Py_ssize_t size;
    HELD Py_buffer rows = {0};
    if (!PyArg_ParseTuple(args, "w*n", &rows, &size))
        return NULL;
    if (size < 1 || size & (size - 1)) {
        PyErr_SetString(PyExc_ValueError, "size is not a power of two");
        return NULL;
    }
    if (!is_length(&rows, rows.len / 8 / size * size, 8, "rows"))
        return NULL;
    Hearing hearing;
    Listener listener = listen_with(&hearing, module);
    int stopped = 0;
    hearing.released = PyEval_SaveThread();
    for (Py_ssize_t begin = 0; begin < rows.len / 8 && !stopped; begin += size) {
        walsh_hadamard((double *)rows.buf + begin, (size_t)size);
        stopped = is_stopped(&listener);
    }
    PyEval_RestoreThread(hearing.released);
    return stopped ? NULL : Py_NewRef(Py_None);
}

PyDoc_STRVAR(sample_weights_doc,
"sample_weights(hashes, weights, logs, lengths, num_perm, keys, rows)\n--\n\n"
"Sample concatenated weighted sets: hashes (uint64), weights and their logarithms (float64), with the\n"
"length of each (int64, at least 1), into rows (n, num_perm) of uint16.\n"
"keys is 3 * num_perm numbers (uint64).");

static PyObject *py_sample_weights(PyObject *module, PyObject *args)
{
    Py_ssize_t num_perm;
    HELD Py_buffer hashes = {0}, weights = {0}, logs = {0}, lengths = {0}, keys = {0}, rows = {0};
    if (!PyArg_ParseTuple(args, "y*y*y*y*ny*w*", &hashes, &weights, &logs, &lengths, &num_perm,
                          &keys, &rows))
        return NULL;
    Py_ssize_t n = lengths.len / 8, total = hashes.len / 8, begin = 0;
    const int64_t *counts = lengths.buf;
    if (num_perm < 1 || num_perm > MAX_NUM_PERM) {
        PyErr_SetString(PyExc_ValueError, "num_perm is out of range");
        return NULL;
    }
    if (!is_length(&hashes, total, 8, "hashes") || !is_length(&weights, total, 8, "weights")
        || !is_length(&logs, total, 8, "logs") || !is_length(&lengths, n, 8, "lengths")
        || !is_length(&keys, 3 * num_perm, 8, "keys")
        || !is_length(&rows, multiply(n, num_perm), WORD_BYTES, "rows"))
        return NULL;
    Py_ssize_t rest = total;
    for (Py_ssize_t i = 0; i < n && rest >= 0; i++)
        rest = counts[i] < 1 || counts[i] > rest ? -1 : rest - (Py_ssize_t)counts[i];
    if (rest) {
        PyErr_SetString(PyExc_ValueError, "lengths are below 1, or do not sum to the hashes");
        return NULL;
    }
    Hearing hearing;
    Listener listener = listen_with(&hearing, module);
    int stopped = 0;
    hearing.released = PyEval_SaveThread();
    for (Py_ssize_t i = 0; i < n && begin >= 0 && !stopped; i++) {
        /* Read once: another thread may change it, and so do rows in the same memory. */
        int64_t count = ((volatile const int64_t *)counts)[i];
        if (count < 1 || count > total - begin) {
            begin = -1;
        } else {
            stopped = sample_weights(
                          (const uint64_t *)hashes.buf + begin, (const double *)weights.buf + begin,
                          (const double *)logs.buf + begin, (size_t)count, (uint32_t)num_perm,
                          keys.buf, (uint16_t *)rows.buf + i * num_perm, &listener)
                      || is_stopped(&listener);
            begin += (Py_ssize_t)count;
        }
    }
    PyEval_RestoreThread(hearing.released);
    if (stopped)
        return NULL;
    if (begin == total)
        return Py_NewRef(Py_None);
    PyErr_SetString(PyExc_ValueError, "lengths changed while sampling");
    return NULL;
}

PyDoc_STRVAR(use_level_doc,
"use_level(name=None)\n--\n\n"
"Use the instructions of that name (plain, avx2, avx512), or for None the best of this machine, and\n"
"return the name. Raises ValueError if the machine does not have them.");

static PyObject *py_use_level(PyObject *module, PyObject *args)
{
    const char *name = NULL;
    if (!PyArg_ParseTuple(args, "|z", &name))
        return NULL;
    const Level *found = find_level(name);
    if (!found) {
        PyErr_Format(PyExc_ValueError, "this machine does not have the instructions %s", name);
        return NULL;
    }
    atomic_store(&((State *)PyModule_GetState(module))->level, found);
    return PyUnicode_FromString(found->name);
}

PyDoc_STRVAR(use_pieces_doc,
"use_pieces(shingles=0)\n--\n\n"
"Process long texts this many shingles at a time; a text of more than 16 times as many bytes is long.\n"
"0 restores the default, 65536. Results do not depend on it; tests try small numbers.");

static PyObject *py_use_pieces(PyObject *module, PyObject *args)
{
    Py_ssize_t shingles = 0;
    if (!PyArg_ParseTuple(args, "|n", &shingles))
        return NULL;
    if (shingles < 0 || shingles > 1 << 20) {
        PyErr_SetString(PyExc_ValueError, "shingles is out of range");
        return NULL;
    }
    State *state = PyModule_GetState(module);
    atomic_store(&state->piece, shingles ? (size_t)shingles : PIECE);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(hear_with_doc,
"hear_with(asked)\n--\n\n"
"Call asked() without arguments about every tenth of a second of long work, in the working thread, in\n"
"addition to checking for signals. If it raises, the work ends with its exception. None: no call.");

static PyObject *py_hear_with(PyObject *module, PyObject *asked)
{
    State *state = PyModule_GetState(module);
    PyObject *before = state->asked;
    state->asked = asked == Py_None ? NULL : Py_NewRef(asked);
    Py_XDECREF(before);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"hear_with", py_hear_with, METH_O, hear_with_doc},
    {"use_pieces", py_use_pieces, METH_VARARGS, use_pieces_doc},
    {"use_level", py_use_level, METH_VARARGS, use_level_doc},
    {"walsh_hadamard", py_walsh_hadamard, METH_VARARGS, walsh_hadamard_doc},
    {"sample_weights", py_sample_weights, METH_VARARGS, sample_weights_doc},
    {"sign_contents", py_sign_contents, METH_VARARGS, sign_contents_doc},
    {"shingle_text", py_shingle_text, METH_VARARGS, shingle_text_doc},
    {"sketch", py_sketch, METH_VARARGS, sketch_doc},
    {"bucket_keys", py_bucket_keys, METH_VARARGS, bucket_keys_doc},
    {"compare_rows", py_compare_rows, METH_VARARGS, compare_rows_doc},
    {"compare_bits", py_compare_bits, METH_VARARGS, compare_bits_doc},
    {"count_common", py_count_common, METH_VARARGS, count_common_doc},
    {"compare_texts", py_compare_texts, METH_VARARGS, compare_texts_doc},
    {NULL, NULL, 0, NULL},
};

/* All interpreters of a process share the tables; their threads may read them as soon as one of them has
   the module. */
static void fill_tables(void)
{
    fill_classes();
    fill_shuffles();
    fill_sums();
}

static int run_module(PyObject *module)
{
    static pthread_once_t filled = PTHREAD_ONCE_INIT;
    pthread_once(&filled, fill_tables);
    State *state = PyModule_GetState(module);
    atomic_init(&state->level, find_level(NULL));
    atomic_init(&state->piece, PIECE);
    PyMethodDef *const others[] = {block_methods,   line_methods,    order_methods, pair_methods,
                                   passage_methods, query_methods,   row_methods,   scan_methods,
                                   set_methods,     sharing_methods, text_methods};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (PyModule_AddFunctions(module, others[i]))
            return -1;
    return 0;
}

static int traverse(PyObject *module, visitproc visit, void *arg)
{
    State *state = PyModule_GetState(module);
    if (state)
        Py_VISIT(state->asked);
    return 0;
}

static int clear(PyObject *module)
{
    State *state = PyModule_GetState(module);
    if (state)
        Py_CLEAR(state->asked);
    return 0;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, run_module},
#ifdef Py_mod_multiple_interpreters
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
#ifdef Py_mod_gil
    /* Calls of normalise() share a table and a memo, which only the lock keeps from two threads at a
       time, and so does what hear_with() was given. Everything that is long lets go of the lock. */
    {Py_mod_gil, Py_MOD_GIL_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "lshdb.kernel.compiled",
    .m_doc = "From text to signature in C; see kernel/kernel.h.",
    .m_size = sizeof(State),
    .m_traverse = traverse,
    .m_clear = clear,
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit_compiled(void) { return PyModuleDef_Init(&definition); }
