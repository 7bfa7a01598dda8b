/* Contents -> signature rows: the steps of one content together. */

#include "kernel.h"

int sign_found(Workspace *work, const Signing *job, size_t i, ptrdiff_t found)
{
    job->counts[i] = found;
    if (found <= 0)
        return (int)found;
    return sketch(work, job->scheme, work->hashes, (size_t)found, (uint32_t)job->num_perm,
                  job->constants, job->rows + i * (size_t)job->num_perm);
}

int sign_text(Workspace *work, const Signing *job, size_t i, const uint8_t *text, size_t length,
              const Listener *listener)
{
    if (is_long(length, listener) && !job->bag)
        return sign_long(work, text, length, job->unit, (size_t)job->k, job->scheme,
                         (uint32_t)job->num_perm, job->constants,
                         job->rows + i * (size_t)job->num_perm, job->counts + i, listener);
    int failed =
        sign_found(work, job, i, shingle(work, text, length, job->unit, (size_t)job->k, job->bag));
    return failed ? failed : is_stopped(listener) ? WORK_STOPPED : WORK_DONE;
}
