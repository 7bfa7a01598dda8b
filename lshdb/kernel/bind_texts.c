/* The Python interface of whole texts: normalise them, hash their bodies, and sign them.

   A str never changes, so a tuple that holds it lets the kernel read its characters without the
   interpreter's lock. The lock is taken only to ask Python for a block of a table, a segment, or a whole
   text that the table cannot normalise. */

#include "binding.h"

#include "blake2b.h"
#include "normalise.h"
#include "texts.h"

/* The table and functions with Python's results for the code points of the texts. */
typedef struct {
    uint64_t *table;
    PyObject *fill;
    void *memo;
    PyObject *segment;
} Folding;

/* Without the lock there is a `hearing`, from which it is taken and to which it is given back. */
static void take_lock(Hearing *hearing)
{
    if (hearing)
        PyEval_RestoreThread(hearing->released);
}

static void give_lock(Hearing *hearing)
{
    if (hearing)
        hearing->released = PyEval_SaveThread();
}

static Text text_of(PyObject *text)
{
    return (Text){PyUnicode_DATA(text), (size_t)PyUnicode_GET_LENGTH(text), PyUnicode_KIND(text),
                  PyUnicode_IS_ASCII(text)};
}

/* A tuple of our own keeps the texts alive while another thread may change the list. */
static PyObject *kept_texts(PyObject *texts)
{
    PyObject *kept = PyList_AsTuple(texts);
    for (Py_ssize_t i = 0; kept && i < PyTuple_GET_SIZE(kept); i++)
        if (!PyUnicode_Check(PyTuple_GET_ITEM(kept, i))) {
            PyErr_Format(PyExc_TypeError, "text %zd is %.100s, expected str", i,
                         Py_TYPE(PyTuple_GET_ITEM(kept, i))->tp_name);
            Py_CLEAR(kept);
        }
    return kept;
}

static int is_roomy(Normaliser *work, size_t length)
{
    if (work->room >= length + PADDING)
        return 1;
    uint8_t *bytes = realloc(work->bytes, length + length / 4 + PADDING);
    if (!bytes)
        return 0;
    work->bytes = bytes;
    work->room = length + length / 4 + PADDING;
    return 1;
}

/* Fold an ASCII text. Returns its length then, or NOT_ENCODED without memory. */
static size_t fold_ascii(Normaliser *work, const Text *text, int fold)
{
    if (!is_roomy(work, text->length))
        return NOT_ENCODED;
    return work->level->collapse(work->bytes, text->points, text->length, fold);
}

static int fill_block(PyObject *fill, int block, int *asked)
{
    if (block == *asked) {
        PyErr_Format(PyExc_ValueError, "fill did not fill block %d of the table", block);
        return 0;
    }
    PyObject *filled = PyObject_CallFunction(fill, "i", block);
    Py_XDECREF(filled);
    *asked = block;
    return filled != NULL;
}

/* The UTF-8 of what a function makes of a text, which lives as long as *made; NULL with an exception. */
static const char *call_with_text(PyObject *function, const char *name, PyObject *text,
                                  PyObject **made, Py_ssize_t *size)
{
    *made = PyObject_CallOneArg(function, text);
    if (*made && !PyUnicode_Check(*made))
        PyErr_Format(PyExc_TypeError, "%s returned %.100s, expected str", name,
                     Py_TYPE(*made)->tp_name);
    else if (*made)
        return PyUnicode_AsUTF8AndSize(*made, size);
    return NULL;
}

static int fold_segment(const Folding *folding, Normaliser *work, PyObject *text)
{
    PyObject *folded = NULL,
             *part = PyUnicode_Substring(text, (Py_ssize_t)work->start, (Py_ssize_t)work->end);
    Py_ssize_t size;
    const char *bytes =
        part ? call_with_text(folding->segment, "segment", part, &folded, &size) : NULL;
    if (bytes
        && !normalise_segment(work, PyUnicode_DATA(text), PyUnicode_KIND(text),
                              (size_t)PyUnicode_GET_LENGTH(text), folding->memo,
                              (const uint8_t *)bytes, (size_t)size)) {
        PyErr_NoMemory();
        bytes = NULL;
    }
    Py_XDECREF(folded);
    Py_XDECREF(part);
    return bytes != NULL;
}

enum { FOLD_WHOLE = 1 };

/* Fold a text that is not ASCII. Returns WORK_DONE, FOLD_WHOLE if it is better normalised as a whole, or why
   it was not done. */
static int fold_wide(Normaliser *work, PyObject *text, int fold, const Folding *folding,
                     Hearing *hearing)
{
    const void *points = PyUnicode_DATA(text);
    int width = PyUnicode_KIND(text), stopped, asked = -1;
    size_t length = (size_t)PyUnicode_GET_LENGTH(text);
    work->place = (Place){0};
    work->misses = 0;
    while ((stopped =
                normalise_points(work, points, width, length, fold, folding->table, folding->memo))
           != NORMALISE_DONE) {
        if (stopped == NORMALISE_MEMORY)
            return WORK_MEMORY;
        if (stopped == NORMALISE_COMPLEX)
            return FOLD_WHOLE;
        take_lock(hearing);
        int is_filled =
            stopped == NORMALISE_FILL
                ? fill_block(folding->fill,
                             (int)(PyUnicode_READ(width, points, work->unknown) >> 8), &asked)
                : fold_segment(folding, work, text);
        give_lock(hearing);
        if (!is_filled)
            return WORK_STOPPED;
    }
    return WORK_DONE;
}

PyDoc_STRVAR(normalise_doc,
"normalise(texts, fold, table, fill, memo, segment)\n--\n\n"
"Apply NFKC to each text, fold case if fold, and collapse white space. Returns a list, with None for\n"
"each text that is better normalised as a whole. table (1114112 of uint64) holds the result of each\n"
"code point; fill(block) fills 256 of its entries on first use. segment(text) normalises characters\n"
"that need their neighbours, and memo (131072 of uint64) keeps its results.");

static PyObject *normalise_ascii(Normaliser *work, PyObject *text, int fold)
{
    Text ascii = text_of(text);
    size_t written = fold_ascii(work, &ascii, fold);
    if (written == NOT_ENCODED)
        return PyErr_NoMemory();
    if (written == ascii.length && !memcmp(work->bytes, ascii.points, written))
        return Py_NewRef(text);
    PyObject *result = PyUnicode_New((Py_ssize_t)written, 127);
    if (result)
        memcpy(PyUnicode_DATA(result), work->bytes, written);
    return result;
}

static PyObject *normalise_wide(Normaliser *work, PyObject *text, int fold, const Folding *folding)
{
    int done = fold_wide(work, text, fold, folding, NULL);
    if (done == FOLD_WHOLE)
        return Py_NewRef(Py_None);
    if (done != WORK_DONE)
        return say_why(done);
    return PyUnicode_DecodeUTF8((const char *)work->bytes, (Py_ssize_t)work->place.written, NULL);
}

static int is_folding(const Py_buffer *table, const Py_buffer *memo)
{
    return is_length(table, TABLE_POINTS, 8, "table") && is_length(memo, MEMO_WORDS, 8, "memo");
}

static PyObject *py_normalise(PyObject *module, PyObject *args)
{
    PyObject *texts, *kept, **done, *result = NULL;
    int fold;
    HELD Py_buffer table = {0}, memo = {0};
    Folding folding;
    if (!PyArg_ParseTuple(args, "O!pw*Ow*O", &PyList_Type, &texts, &fold, &table, &folding.fill,
                          &memo, &folding.segment))
        return NULL;
    folding.table = table.buf;
    folding.memo = memo.buf;
    kept = kept_texts(texts); /* fill may run other threads */
    if (!kept)
        return NULL;
    Py_ssize_t n = PyTuple_GET_SIZE(kept), i = 0;
    /* Results stay invisible until they are complete: fill runs Python code, which may ask the garbage
       collector for every list, and a list with empty places ends the process. */
    done = PyMem_Calloc((size_t)n + 1, sizeof *done);
    if (!done)
        PyErr_NoMemory();
    if (done && is_folding(&table, &memo)) {
        Normaliser work = {.level = level_of(module)};
        Hearing hearing;
        listen_with(&hearing, module);
        for (; i < n && !hear_with_lock(&hearing); i++) {
            PyObject *text = PyTuple_GET_ITEM(kept, i);
            done[i] = PyUnicode_IS_ASCII(text) ? normalise_ascii(&work, text, fold)
                                               : normalise_wide(&work, text, fold, &folding);
            if (!done[i])
                break;
        }
        free(work.bytes);
        if (i == n)
            result = PyList_New(n);
    }
    for (Py_ssize_t j = 0; j < i; j++)
        if (result)
            PyList_SET_ITEM(result, j, done[j]);
        else
            Py_DECREF(done[j]);
    PyMem_Free(done);
    Py_DECREF(kept);
    return result;
}

PyDoc_STRVAR(hash_texts_doc,
"hash_texts(texts, person, headers, width, hashes)\n--\n\n"
"Put the BLAKE2b of each text's UTF-8, personalised, into hashes (n of 16 bytes). Returns None, or if\n"
"headers is not None, a list with the UTF-8 of each text, and a list of the texts without a header.\n"
"headers holds what stands before texts of 0, 1, 2, ... bytes, width bytes each; longer texts have\n"
"nothing before them.");

/* The texts of one call, and where their results go. */
typedef struct {
    Py_ssize_t n;
    size_t *sizes;
    uint8_t **places; /* NULL: nowhere */
    const uint8_t *headers;
    size_t width, n_headers;
    Blake2b begun;
    uint8_t *hashes;
} Hashing;

/* Find the size of each text, without the lock. Returns the first with a lone surrogate, or -1; *most is the
   size of the longest. */
static Py_ssize_t measure(const Hashing *job, PyObject *texts, size_t *most)
{
    for (Py_ssize_t i = 0; i < job->n; i++) {
        Text text = text_of(PyTuple_GET_ITEM(texts, i));
        job->sizes[i] = utf8_size(&text);
        if (job->sizes[i] == NOT_ENCODED)
            return i;
        *most = job->sizes[i] > *most ? job->sizes[i] : *most;
    }
    return -1;
}

/* Write and hash the texts, without the lock. */
static int write_texts(const Hashing *job, PyObject *texts, uint8_t *scratch,
                       const Listener *listener)
{
    for (Py_ssize_t i = 0; i < job->n; i++) {
        Text text = text_of(PyTuple_GET_ITEM(texts, i));
        size_t size = job->sizes[i], before = size < job->n_headers ? job->width : 0;
        const uint8_t *bytes = text.points;
        if (job->places) {
            memcpy(job->places[i], job->headers + size * job->width, before);
            bytes = job->places[i] + before;
            write_utf8(job->places[i] + before, &text);
        } else if (!text.is_ascii) {
            bytes = scratch;
            write_utf8(scratch, &text);
        }
        blake2b_digest(&job->begun, bytes, size, job->hashes + i * DIGEST_BYTES);
        if (is_stopped(listener))
            return WORK_STOPPED;
    }
    return WORK_DONE;
}

/* A list of bytes objects that are still to be written, at job->places. */
static PyObject *make_places(Hashing *job)
{
    PyObject *result = PyList_New(job->n);
    if (result) /* the garbage collector shows it to nobody before its texts are written */
        PyObject_GC_UnTrack(result);
    job->places = PyMem_Calloc((size_t)job->n + 1, sizeof *job->places);
    if (!job->places && result)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; result && job->places && i < job->n; i++) {
        size_t before = job->sizes[i] < job->n_headers ? job->width : 0;
        PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(job->sizes[i] + before));
        if (!bytes)
            Py_CLEAR(result);
        else
            job->places[i] = (uint8_t *)PyBytes_AS_STRING(bytes);
        if (result)
            PyList_SET_ITEM(result, i, bytes);
    }
    if (!job->places)
        Py_CLEAR(result);
    return result;
}

/* The numbers of the texts without a header, beside what was made of all. Takes the reference to `made`. */
static PyObject *with_plain(const Hashing *job, PyObject *made)
{
    PyObject *plain = PyList_New(0);
    int failed = !plain;
    for (Py_ssize_t i = 0; i < job->n && !failed; i++)
        if (job->sizes[i] >= job->n_headers) {
            PyObject *number = PyLong_FromSsize_t(i);
            failed = !number || PyList_Append(plain, number);
            Py_XDECREF(number);
        }
    PyObject_GC_Track(made);
    PyObject *both = failed ? NULL : PyTuple_Pack(2, made, plain);
    Py_DECREF(made);
    Py_XDECREF(plain);
    return both;
}

static PyObject *hash_kept(PyObject *module, Hashing *job, PyObject *texts, int is_kept)
{
    Hearing hearing;
    Listener listener = listen_with(&hearing, module);
    PyObject *result = NULL;
    uint8_t *scratch = NULL;
    size_t most = 0;
    Py_BEGIN_ALLOW_THREADS job->n = measure(job, texts, &most) < 0 ? job->n : -1;
    Py_END_ALLOW_THREADS if (job->n < 0)
    {
        PyErr_SetString(PyExc_ValueError, "a text holds a lone surrogate");
        return NULL;
    }
    result = is_kept ? make_places(job) : Py_NewRef(Py_None);
    if (result && !is_kept && !(scratch = malloc(most + 1))) {
        PyErr_NoMemory();
        Py_CLEAR(result);
    }
    if (result) {
        hearing.released = PyEval_SaveThread();
        int done = write_texts(job, texts, scratch, &listener);
        PyEval_RestoreThread(hearing.released);
        if (done != WORK_DONE)
            Py_CLEAR(result);
    }
    free(scratch);
    return result && is_kept ? with_plain(job, result) : result;
}

static PyObject *py_hash_texts(PyObject *module, PyObject *args)
{
    PyObject *texts, *result = NULL;
    Py_ssize_t width;
    HELD Py_buffer person = {0}, headers = {0}, hashes = {0};
    if (!PyArg_ParseTuple(args, "O!y*z*nw*", &PyList_Type, &texts, &person, &headers, &width,
                          &hashes))
        return NULL;
    if (person.len > PERSON_BYTES || width < 1) {
        PyErr_SetString(PyExc_ValueError, "person or width is out of range");
        return NULL;
    }
    PyObject *kept = kept_texts(texts);
    if (!kept)
        return NULL;
    Py_ssize_t n = PyTuple_GET_SIZE(kept);
    Hashing job = {.n = n,
                   .hashes = hashes.buf,
                   .headers = headers.buf,
                   .width = (size_t)width,
                   .n_headers = headers.buf ? (size_t)(headers.len / width) : 0,
                   .begun = blake2b_begin(person.buf, (size_t)person.len)};
    if (is_length(&hashes, n, DIGEST_BYTES, "hashes")) {
        job.sizes = PyMem_Calloc((size_t)n + 1, sizeof *job.sizes);
        result = job.sizes ? hash_kept(module, &job, kept, headers.buf != NULL) : PyErr_NoMemory();
    }
    PyMem_Free(job.sizes);
    PyMem_Free(job.places);
    Py_DECREF(kept);
    return result;
}

PyDoc_STRVAR(sign_texts_doc,
"sign_texts(texts, fold, table, fill, memo, segment, whole, kinds, learn, person, unit, k, bag, scheme,\n"
"    num_perm, constants, hashes, unassigned, rows, counts)\n--\n\n"
"Normalise texts as normalise() does, and hash and sign the results, as sign_contents() does. fold is 1,\n"
"0, or -1 for texts that are normalised. whole(text) normalises a text that is better normalised as a\n"
"whole. kinds (1114112 bytes) holds 1 for each assigned and 2 for each unassigned code point;\n"
"learn(block) fills 256 of them on first use. The results are the BLAKE2b of each content, personalised\n"
"(n of 16 bytes), its number of unassigned characters (int64), its row and its count. No two calls at a\n"
"time may have one memo.");

/* What is done with each text. */
typedef struct {
    int fold;
    Folding folding;
    PyObject *whole;
    const uint8_t *kinds;
    PyObject *learn;
    Blake2b begun;
    uint8_t *hashes;
    int64_t *unassigned;
    Signing signing;
} Texts;

/* A content in UTF-8, and the object that holds it, if one does. */
typedef struct {
    const uint8_t *bytes;
    size_t size;
    PyObject *holder;
} Content;

static int normalise_whole(const Texts *job, PyObject *text, Content *content, Hearing *hearing)
{
    Py_ssize_t size = 0;
    take_lock(hearing);
    const char *bytes = call_with_text(job->whole, "whole", text, &content->holder, &size);
    give_lock(hearing);
    content->bytes = (const uint8_t *)bytes;
    content->size = (size_t)size;
    return bytes ? WORK_DONE : WORK_STOPPED;
}

static int refuse_surrogate(Hearing *hearing)
{
    take_lock(hearing);
    PyErr_SetString(PyExc_ValueError, "a text holds a lone surrogate");
    give_lock(hearing);
    return WORK_STOPPED;
}

/* Find the content of a text, without the lock. */
static int find_content(const Texts *job, Normaliser *work, PyObject *object, Content *content,
                        Hearing *hearing)
{
    Text text = text_of(object);
    *content = (Content){text.points, text.length, NULL};
    if (job->fold < 0 && text.is_ascii)
        return WORK_DONE;
    if (job->fold < 0) {
        content->size = utf8_size(&text);
        if (content->size == NOT_ENCODED)
            return refuse_surrogate(hearing);
        if (!is_roomy(work, content->size))
            return WORK_MEMORY;
        write_utf8(work->bytes, &text);
    } else if (text.is_ascii) {
        content->size = fold_ascii(work, &text, job->fold);
        if (content->size == NOT_ENCODED)
            return WORK_MEMORY;
    } else {
        int done = fold_wide(work, object, job->fold, &job->folding, hearing);
        if (done == FOLD_WHOLE)
            return normalise_whole(job, object, content, hearing);
        if (done != WORK_DONE)
            return done;
        content->size = work->place.written;
    }
    content->bytes = work->bytes;
    return WORK_DONE;
}

static int count_in(const Texts *job, const Content *content, int64_t *count, Hearing *hearing)
{
    size_t at = 0;
    int32_t point;
    int asked = -1;
    while ((point = count_unassigned(content->bytes, content->size, job->kinds, &at, count)) >= 0) {
        take_lock(hearing);
        int is_filled = fill_block(job->learn, point >> 8, &asked);
        give_lock(hearing);
        if (!is_filled)
            return WORK_STOPPED;
    }
    return WORK_DONE;
}

/* Sign the texts, without the lock. */
static int sign_all(const Texts *job, PyObject *texts, Workspace *work, Normaliser *normaliser,
                    Hearing *hearing)
{
    int done = WORK_DONE;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(texts) && done == WORK_DONE; i++) {
        PyObject *text = PyTuple_GET_ITEM(texts, i);
        Content content;
        int64_t unassigned = 0;
        done = find_content(job, normaliser, text, &content, hearing);
        if (done == WORK_DONE && !PyUnicode_IS_ASCII(text))
            done = count_in(job, &content, &unassigned, hearing);
        if (done == WORK_DONE) {
            job->unassigned[i] = unassigned;
            blake2b_digest(&job->begun, content.bytes, content.size,
                           job->hashes + i * DIGEST_BYTES);
            done = sign_text(work, &job->signing, (size_t)i, content.bytes, content.size,
                             work->listener);
        }
        if (content.holder) {
            take_lock(hearing);
            Py_DECREF(content.holder);
            give_lock(hearing);
        }
    }
    return done;
}

static PyObject *py_sign_texts(PyObject *module, PyObject *args)
{
    PyObject *list, *result = NULL;
    Texts job;
    Signing *signing = &job.signing;
    HELD Py_buffer table = {0}, memo = {0}, kinds = {0}, person = {0}, constants = {0};
    HELD Py_buffer hashes = {0}, unassigned = {0}, rows = {0}, counts = {0};
    if (!PyArg_ParseTuple(args, "O!iw*Ow*OOw*Oy*inpiny*w*w*w*w*", &PyList_Type, &list, &job.fold,
                          &table, &job.folding.fill, &memo, &job.folding.segment, &job.whole,
                          &kinds, &job.learn, &person, &signing->unit, &signing->k, &signing->bag,
                          &signing->scheme, &signing->num_perm, &constants, &hashes, &unassigned,
                          &rows, &counts))
        return NULL;
    if (person.len > PERSON_BYTES || job.fold < -1 || job.fold > 1) {
        PyErr_SetString(PyExc_ValueError, "person or fold is out of range");
        return NULL;
    }
    PyObject *texts = kept_texts(list);
    if (!texts)
        return NULL;
    Py_ssize_t n = PyTuple_GET_SIZE(texts);
    if (is_folding(&table, &memo) && is_length(&kinds, CODE_POINTS, 1, "kinds")
        && is_shingling(signing->unit, signing->k)
        && is_scheme(signing->scheme, signing->num_perm, &constants)
        && is_length(&hashes, n, DIGEST_BYTES, "hashes")
        && is_length(&unassigned, n, 8, "unassigned")
        && is_length(&rows, multiply(n, signing->num_perm), WORD_BYTES, "rows")
        && is_length(&counts, n, 8, "counts")) {
        job.folding.table = table.buf;
        job.folding.memo = memo.buf;
        job.kinds = kinds.buf;
        job.begun = blake2b_begin(person.buf, (size_t)person.len);
        job.hashes = hashes.buf;
        job.unassigned = unassigned.buf;
        signing->constants = constants.buf;
        signing->rows = rows.buf;
        signing->counts = counts.buf;
        Hearing hearing;
        Listener listener = listen_with(&hearing, module);
        Workspace work = {.level = level_of(module), .listener = &listener};
        Normaliser normaliser = {.level = work.level};
        hearing.released = PyEval_SaveThread();
        int done = sign_all(&job, texts, &work, &normaliser, &hearing);
        free(normaliser.bytes);
        release(&work);
        PyEval_RestoreThread(hearing.released);
        result = done == WORK_DONE ? Py_NewRef(Py_None) : say_why(done);
    }
    Py_DECREF(texts);
    return result;
}

PyMethodDef text_methods[] = {
    {"normalise", py_normalise, METH_VARARGS, normalise_doc},
    {"hash_texts", py_hash_texts, METH_VARARGS, hash_texts_doc},
    {"sign_texts", py_sign_texts, METH_VARARGS, sign_texts_doc},
    {NULL, NULL, 0, NULL},
};
