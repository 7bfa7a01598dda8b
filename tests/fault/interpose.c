/* A layer between a process and its file system: loaded by LD_PRELOAD, driven by a few calls.
 *
 * Calls on paths under one folder are seen, all others pass. What can be done with them:
 *
 *   record    every call that changes something goes to a log, with its data, in the order in which
 *             they took effect, so that a power loss can be replayed (power_loss.py)
 *   fail      the nth call of some kinds fails with an error, or writes only half; once or from then on
 *   kill      the process is killed before, in the middle of or after the nth call
 *
 * Python and SQLite go through these functions of the C library. What could change a file without
 * being recorded (sendfile, links, maps that are written to, ...) is noted in the log as a call
 * that the replay does not know, and the replay refuses the log. SQLite's -shm file is mapped
 * writable and is not recorded: it is made anew by whoever opens the database first.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 };
enum kind {
    CREATE = 1, WRITE = 2, TRUNCATE = 4, SYNC = 8, RENAME = 16, UNLINK = 32, MKDIR = 64, RMDIR = 128,
    OPEN = 256, READ = 512, LOCK = 1024, MARK = 2048, UNKNOWN = 4096, LINK = 8192,
};
enum action { PASS, FAIL, SHORT, KILL_BEFORE, KILL_HALF, KILL_AFTER };

static char root[PATH_BYTES];
static size_t root_bytes;
static int log_file = -1;
static pthread_mutex_t mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static struct {
    int action, kinds, error, lasting;
    char part[256];
    long nth, count;
} plan;

#define REAL(name) ((__typeof__(&name))real(#name))
static void *real(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (!found) { dprintf(2, "interpose: no %s\n", name); _exit(99); }
    return found;
}

/* What the driver calls */

void fault_root(const char *path) {
    root_bytes = strlen(path);
    memcpy(root, path, root_bytes + 1);
}

void fault_arm(int action, int kinds, const char *part, long nth, int error, int lasting) {
    plan.action = action; plan.kinds = kinds; plan.nth = nth; plan.error = error; plan.lasting = lasting;
    plan.count = 0;
    snprintf(plan.part, sizeof plan.part, "%s", part);
}

long fault_count(void) { return plan.count; }

void fault_record(const char *path) {
    log_file = REAL(open)(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log_file < 0) _exit(98);
}

/* The log */

static void put(const void *bytes, size_t n) {
    for (const char *p = bytes; n;) {
        ssize_t done = REAL(write)(log_file, p, n);
        if (done < 0) _exit(97);
        p += done; n -= (size_t)done;
    }
}

static void note(int kind, uint64_t inode, int64_t place, const char *path, const void *data, size_t n) {
    if (log_file < 0) return;
    struct { uint32_t kind, path_bytes; uint64_t inode; int64_t place; uint64_t data_bytes; } head = {
        (uint32_t)kind, (uint32_t)strlen(path), inode, place, n};
    put(&head, sizeof head);
    put(path, head.path_bytes);
    put(data, n);
}

void fault_mark(const char *text) {
    pthread_mutex_lock(&mutex);
    note(MARK, 0, 0, "", text, strlen(text));
    pthread_mutex_unlock(&mutex);
}

/* Where a call goes, and what is to become of it */

static int is_inside(const char *path) {
    return root_bytes && !strncmp(path, root, root_bytes) && (!path[root_bytes] || path[root_bytes] == '/');
}

static int path_of(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = root_bytes ? readlink(link, path, PATH_BYTES - 1) : -1;
    path[n < 0 ? 0 : n] = 0;
    return n > 0 && is_inside(path);
}

static int resolve(int folder, const char *name, char *path) {
    char base[PATH_BYTES];
    if (!root_bytes) return 0;
    if (name[0] == '/') snprintf(path, PATH_BYTES, "%s", name);
    else {
        if (folder == AT_FDCWD) { if (!getcwd(base, sizeof base)) return 0; }
        else path_of(folder, base);
        if (snprintf(path, PATH_BYTES, "%s/%s", base, name) >= PATH_BYTES) return 0;
    }
    return is_inside(path);
}

static void die(void) { kill(getpid(), SIGKILL); for (;;) pause(); }

/* Whether the call is on what the plan is about: a part of a path, with a $ behind it its end. */
static int is_meant(const char *path) {
    size_t n = strlen(plan.part), all = strlen(path);
    if (!n || plan.part[n - 1] != '$') return strstr(path, plan.part) != NULL;
    return all >= n - 1 && !strncmp(path + all - (n - 1), plan.part, n - 1);
}

/* The action that is due for this call; counts it. */
static int due(int kind, const char *path) {
    if (!(plan.kinds & kind) || !is_meant(path)) return PASS;
    long n = ++plan.count;
    if (n != plan.nth && !(plan.lasting && n > plan.nth)) return PASS;
    if (plan.action == KILL_BEFORE || (plan.action == KILL_HALF && kind != WRITE)) die();
    if (plan.action == SHORT && kind != WRITE && kind != READ) return PASS;
    return plan.action;
}

static uint64_t inode_of(int fd) {
    struct stat st;
    return fstat(fd, &st) ? 0 : st.st_ino;
}

/* A call that changes something: `call` on success gives what `noted` then writes to the log. */
#define CHANGING(kind, path, call, noted) do {                          \
    pthread_mutex_lock(&mutex);                                         \
    int action_ = due(kind, path);                                      \
    __typeof__(call) result_ = -1;                                      \
    if (action_ == FAIL) errno = plan.error;                            \
    else {                                                              \
        result_ = (call);                                               \
        int error_ = errno;                                             \
        if (result_ >= 0) { noted; }                                    \
        if (action_ == KILL_AFTER) die();                               \
        errno = error_;                                                 \
    }                                                                   \
    pthread_mutex_unlock(&mutex);                                       \
    return result_;                                                     \
} while (0)

/* Opening */

static int opened(int folder, const char *name, int flags, mode_t mode) {
    char path[PATH_BYTES];
    struct stat st;
    if (!resolve(folder, name, path)) return REAL(openat)(folder, name, flags, mode);
    pthread_mutex_lock(&mutex);
    int is_new = (flags & O_CREAT) && lstat(path, &st) != 0;
    int empties = !is_new && (flags & O_TRUNC);
    int action = due((is_new ? CREATE : empties ? TRUNCATE : 0) | OPEN, path);
    int fd = -1;
    if (action == FAIL) errno = plan.error;
    else {
        fd = REAL(openat)(folder, name, flags, mode);
        int error = errno;
        if (fd >= 0 && is_new) note(CREATE, inode_of(fd), 0, path, "", 0);
        if (fd >= 0 && empties) note(TRUNCATE, inode_of(fd), 0, path, "", 0);
        if (action == KILL_AFTER) die();
        errno = error;
    }
    pthread_mutex_unlock(&mutex);
    return fd;
}

#define MODE(flags, last) mode_t mode = 0; \
    if ((flags) & (O_CREAT | __O_TMPFILE)) { va_list rest; va_start(rest, last); mode = va_arg(rest, mode_t); va_end(rest); }
int open(const char *name, int flags, ...) { MODE(flags, flags) return opened(AT_FDCWD, name, flags, mode); }
int open64(const char *name, int flags, ...) { MODE(flags, flags) return opened(AT_FDCWD, name, flags, mode); }
int openat(int at, const char *name, int flags, ...) { MODE(flags, flags) return opened(at, name, flags, mode); }
int openat64(int at, const char *name, int flags, ...) { MODE(flags, flags) return opened(at, name, flags, mode); }

/* Writing and reading */

static ssize_t written(int fd, const void *data, size_t n, off_t offset, int moves) {
    char path[PATH_BYTES];
    if (!path_of(fd, path)) return moves ? REAL(write)(fd, data, n) : REAL(pwrite)(fd, data, n, offset);
    pthread_mutex_lock(&mutex);
    int action = due(WRITE, path);
    ssize_t done = -1;
    if (action == FAIL) errno = plan.error;
    else {
        if ((action == SHORT || action == KILL_HALF) && n > 1) n /= 2;
        struct stat st;
        if (moves) offset = fcntl(fd, F_GETFL) & O_APPEND ? (fstat(fd, &st) ? 0 : st.st_size) : lseek(fd, 0, SEEK_CUR);
        done = moves ? REAL(write)(fd, data, n) : REAL(pwrite)(fd, data, n, offset);
        int error = errno;
        if (done > 0) note(WRITE, inode_of(fd), offset, path, data, (size_t)done);
        if (action == KILL_HALF || action == KILL_AFTER) die();
        errno = error;
    }
    pthread_mutex_unlock(&mutex);
    return done;
}

ssize_t write(int fd, const void *data, size_t n) { return written(fd, data, n, 0, 1); }
ssize_t pwrite(int fd, const void *data, size_t n, off_t at) { return written(fd, data, n, at, 0); }
ssize_t pwrite64(int fd, const void *data, size_t n, off64_t at) { return written(fd, data, n, at, 0); }

static ssize_t was_read(int fd, void *data, size_t n, off_t offset, int moves) {
    char path[PATH_BYTES];
    if ((plan.kinds & READ) && path_of(fd, path)) {
        pthread_mutex_lock(&mutex);
        int action = due(READ, path);
        pthread_mutex_unlock(&mutex);
        if (action == FAIL) { errno = plan.error; return -1; }
        if (action == SHORT && n > 1) n /= 2;
    }
    return moves ? REAL(read)(fd, data, n) : REAL(pread)(fd, data, n, offset);
}

ssize_t read(int fd, void *data, size_t n) { return was_read(fd, data, n, 0, 1); }
ssize_t pread(int fd, void *data, size_t n, off_t at) { return was_read(fd, data, n, at, 0); }
ssize_t pread64(int fd, void *data, size_t n, off64_t at) { return was_read(fd, data, n, at, 0); }

static int cut(int fd, off_t size) {
    char path[PATH_BYTES];
    if (!path_of(fd, path)) return REAL(ftruncate)(fd, size);
    CHANGING(TRUNCATE, path, REAL(ftruncate)(fd, size), note(TRUNCATE, inode_of(fd), size, path, "", 0));
}

int ftruncate(int fd, off_t size) { return cut(fd, size); }
int ftruncate64(int fd, off64_t size) { return cut(fd, size); }

/* Nothing is synced in truth: a killed process loses no page of the cache, and disks take their time. */
int fsync(int fd) {
    char path[PATH_BYTES];
    if (!path_of(fd, path)) return REAL(fsync)(fd);
    CHANGING(SYNC, path, 0, note(SYNC, inode_of(fd), 0, path, "", 0));
}

int fdatasync(int fd) {
    char path[PATH_BYTES];
    if (!path_of(fd, path)) return REAL(fdatasync)(fd);
    CHANGING(SYNC, path, 0, note(SYNC, inode_of(fd), 0, path, "", 0));
}

/* Names */

int renameat(int from_at, const char *from, int to_at, const char *to) {
    char path[PATH_BYTES], new[PATH_BYTES];
    int inside = resolve(from_at, from, path);
    if (!(resolve(to_at, to, new) | inside)) return REAL(renameat)(from_at, from, to_at, to);
    CHANGING(RENAME, path, REAL(renameat)(from_at, from, to_at, to), note(RENAME, 0, 0, path, new, strlen(new)));
}

/* Of two names that change places; the place in the log holds the flags. */
int renameat2(int from_at, const char *from, int to_at, const char *to, unsigned flags) {
    char path[PATH_BYTES], new[PATH_BYTES];
    int inside = resolve(from_at, from, path);
    if (!(resolve(to_at, to, new) | inside)) return REAL(renameat2)(from_at, from, to_at, to, flags);
    CHANGING(RENAME, path, REAL(renameat2)(from_at, from, to_at, to, flags),
             note(RENAME, 0, flags, path, new, strlen(new)));
}

int rename(const char *from, const char *to) { return renameat(AT_FDCWD, from, AT_FDCWD, to); }

int unlinkat(int at, const char *name, int flags) {
    char path[PATH_BYTES];
    if (!resolve(at, name, path)) return REAL(unlinkat)(at, name, flags);
    int kind = flags & AT_REMOVEDIR ? RMDIR : UNLINK;
    CHANGING(kind, path, REAL(unlinkat)(at, name, flags), note(kind, 0, 0, path, "", 0));
}

int unlink(const char *name) { return unlinkat(AT_FDCWD, name, 0); }
int rmdir(const char *name) { return unlinkat(AT_FDCWD, name, AT_REMOVEDIR); }

int linkat(int from_at, const char *from, int to_at, const char *to, int flags) {
    char path[PATH_BYTES];
    struct stat st;
    if (!resolve(to_at, to, path)) return REAL(linkat)(from_at, from, to_at, to, flags);
    CHANGING(LINK, path, REAL(linkat)(from_at, from, to_at, to, flags),
             note(LINK, lstat(path, &st) ? 0 : st.st_ino, 0, path, "", 0));
}

int link(const char *from, const char *to) { return linkat(AT_FDCWD, from, AT_FDCWD, to, 0); }

int mkdirat(int at, const char *name, mode_t mode) {
    char path[PATH_BYTES];
    struct stat st;
    if (!resolve(at, name, path)) return REAL(mkdirat)(at, name, mode);
    CHANGING(MKDIR, path, REAL(mkdirat)(at, name, mode),
             note(MKDIR, lstat(path, &st) ? 0 : st.st_ino, 0, path, "", 0));
}

int mkdir(const char *name, mode_t mode) { return mkdirat(AT_FDCWD, name, mode); }

/* Locks */

int flock(int fd, int operation) {
    char path[PATH_BYTES];
    if (!path_of(fd, path)) return REAL(flock)(fd, operation);
    CHANGING(LOCK, path, REAL(flock)(fd, operation), (void)0);
}

static int controlled(int fd, int command, void *argument) {
    char path[PATH_BYTES];
    if ((command != F_SETLK && command != F_SETLKW) || !path_of(fd, path)) return REAL(fcntl)(fd, command, argument);
    CHANGING(LOCK, path, REAL(fcntl)(fd, command, argument), (void)0);
}

#define ARGUMENT void *argument; { va_list rest; va_start(rest, command); argument = va_arg(rest, void *); va_end(rest); }
int fcntl(int fd, int command, ...) { ARGUMENT return controlled(fd, command, argument); }
int fcntl64(int fd, int command, ...) { ARGUMENT return controlled(fd, command, argument); }

/* What the replay does not know */

static void unknown(const char *name, int fd, const char *file) {
    char path[PATH_BYTES];
    if (file ? resolve(AT_FDCWD, file, path) : path_of(fd, path)) note(UNKNOWN, 0, 0, path, name, strlen(name));
}

ssize_t writev(int fd, const struct iovec *parts, int n) { unknown("writev", fd, 0); return REAL(writev)(fd, parts, n); }
ssize_t sendfile(int to, int from, off_t *at, size_t n) { unknown("sendfile", to, 0); return REAL(sendfile)(to, from, at, n); }
ssize_t sendfile64(int to, int from, off64_t *at, size_t n) { unknown("sendfile", to, 0); return REAL(sendfile64)(to, from, at, n); }
/* The system may copy as little as it likes; here it is what a buffer holds, and goes as a write. */
ssize_t copy_file_range(int from, off64_t *at, int to, off64_t *there, size_t n, unsigned flags) {
    static char buffer[1 << 16];
    char path[PATH_BYTES];
    if (!path_of(to, path)) return REAL(copy_file_range)(from, at, to, there, n, flags);
    if (!at || !there) { errno = ENOSYS; return -1; }
    ssize_t done = REAL(pread)(from, buffer, n < sizeof buffer ? n : sizeof buffer, *at);
    if (done > 0) done = written(to, buffer, (size_t)done, *there, 0);
    if (done > 0) { *at += done; *there += done; }
    return done;
}
int fallocate(int fd, int mode, off_t at, off_t n) { unknown("fallocate", fd, 0); return REAL(fallocate)(fd, mode, at, n); }
int posix_fallocate(int fd, off_t at, off_t n) { unknown("posix_fallocate", fd, 0); return REAL(posix_fallocate)(fd, at, n); }
int posix_fallocate64(int fd, off64_t at, off64_t n) { unknown("posix_fallocate", fd, 0); return REAL(posix_fallocate64)(fd, at, n); }
int truncate(const char *name, off_t size) { unknown("truncate", -1, name); return REAL(truncate)(name, size); }
int truncate64(const char *name, off64_t size) { unknown("truncate", -1, name); return REAL(truncate64)(name, size); }
int symlink(const char *from, const char *to) { unknown("symlink", -1, to); return REAL(symlink)(from, to); }

static void *mapped(void *at, size_t n, int use, int flags, int fd, off_t offset) {
    char path[PATH_BYTES];
    if (fd >= 0 && (use & PROT_WRITE) && (flags & MAP_SHARED) && path_of(fd, path) && !strstr(path, "-shm"))
        unknown("mmap", fd, 0);
    return REAL(mmap)(at, n, use, flags, fd, offset);
}

void *mmap(void *at, size_t n, int use, int flags, int fd, off_t offset) { return mapped(at, n, use, flags, fd, offset); }
void *mmap64(void *at, size_t n, int use, int flags, int fd, off64_t offset) { return mapped(at, n, use, flags, fd, offset); }
