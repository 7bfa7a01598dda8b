#!/usr/bin/env bash
# The kernel under AddressSanitizer and UndefinedBehaviorSanitizer: its tests, or its fuzzing.
#
#     bash tests/sanitize.sh                      the tests that reach the kernel (about 5 minutes)
#     bash tests/sanitize.sh --short              what .ci/run asks for (about a minute)
#     bash tests/sanitize.sh -k folding -x        some of them: arguments are pytest's
#     bash tests/sanitize.sh tests/test_index.py  other tests
#     bash tests/sanitize.sh --fuzz 120           tests/fuzz_kernel.py for so many seconds
#     bash tests/sanitize.sh --fuzz 0 --input 00  (more arguments are its own)
#
# Needs gcc with libasan (another one: CC=gcc-14) and an environment, on the path or as PYTHON, with
# `pip install -e '.[test]'`. What is tested is a copy of the working tree in a temporary folder, with
# a kernel built there; the checkout, and the kernel installed in it, are left alone. Strings and
# buffers are allocated by malloc, each with a guarded zone around it, so reading past one is seen.
# Memory that the kernel itself allocates and loses is reported too; the interpreter's own losses
# at its end are not.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$(command -v "${PYTHON:-python}" || command -v python3)
cc=${CC:-gcc}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

runtime=$($cc -print-file-name=libasan.so)
[ -e "$runtime" ] || { echo "$cc has no libasan.so: install it, or set CC to a gcc that has" >&2; exit 2; }

copy=$work/copy
mkdir "$copy"
cp -R lshdb migrations tests benchmarks docs ./*.md ./*.toml ./*.py "$copy"
find "$copy" \( -name '*.so' -o -name __pycache__ \) -prune -exec rm -rf {} +
include=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
suffix=$("$python" -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))')
$cc -shared -fPIC -std=c11 -ffp-contract=off -Wall -Wextra -O1 -g -fno-omit-frame-pointer \
    -fsanitize=address,undefined -fno-sanitize-recover=all -I"$include" \
    "$copy"/lshdb/kernel/*.c -o "$copy/lshdb/kernel/compiled$suffix" -lm

# Runs a script or pytest, and makes sure before and after that the kernel in use is the one above.
cat > "$work/run.py" <<'RUN'
import ctypes
import os
import runpy
import sys

what, *arguments = sys.argv[1:]


def check():
    from lshdb.kernel import compiled

    loaded = getattr(compiled, "__file__", None)
    if loaded is None or not os.path.samefile(loaded, os.environ["SANITIZED_KERNEL"]):
        sys.exit(f"not the sanitized kernel, but {loaded}")
    ctypes.CDLL(None).__asan_init  # AttributeError without the runtime


check()
if what == "pytest":
    import pytest

    code = pytest.main(arguments)
else:
    sys.argv = [what, *arguments]
    try:
        runpy.run_path(what, run_name="__main__")
        code = 0
    except SystemExit as end:
        code = end.code
check()
print("this was the sanitized kernel", sys.modules["lshdb.kernel.compiled"].__file__)
with open(os.environ["SANITIZED_RESULT"], "w") as result:
    result.write(str(int(code)))
RUN

if [ "${1:-}" = --fuzz ]; then
    seconds=${2:?--fuzz needs a number of seconds}
    shift 2
    set -- tests/fuzz_kernel.py --seconds "$seconds" "$@"
else
    if [ "${1:-}" = --short ]; then
        shift
        # Without those that go through millions of characters or megabytes of text.
        long="megabytes or arbitrary_texts or normalised_as_the or every_code_point or ready_tokens"
        long="$long or 300000 or sketches_of_every_size or compared_by_their_shingles or no_text_is_slow"
        long="$long or begin_alike or sets_of_many_texts or records_of_every_kind"
        set -- tests/signatures/test_kernels.py tests/signatures/test_families_kernel.py \
            tests/signatures/test_query_kernel.py tests/signatures/test_band_orders.py \
            tests/signatures/test_hostile_callers.py tests/signatures/test_refusals.py \
            tests/signatures/test_whole_texts.py tests/documents/test_line_blocks.py \
            tests/ingest/test_row_checksums.py tests/kernel/test_passages.py \
            tests/storage/test_staged_rows.py \
            tests/shingling/test_shingles.py -q -k "not ($long)" "$@"
    fi
    tests=0
    for argument in "$@"; do
        if [ -e "${argument%%::*}" ]; then tests=1; fi
    done
    if [ $tests = 0 ]; then
        set -- tests/kernel tests/signatures tests/shingling tests/golden tests/property tests/search \
            tests/signatures/test_banding.py tests/test_index_units.py tests/test_tokenizers.py \
            --ignore tests/shingling/test_steps.py "$@" # all Python, and long
    fi
    # pytest's own handler of SIGSEGV would hide the sanitizer's, and its capture what goes to stderr,
    # as the reports of undefined behaviour do.
    set -- pytest -n 0 -p no:faulthandler -p no:cacheprovider --capture=sys "$@"
fi

# Of processes that tests start, too, nothing is lost: reports of memory go to files.
export SANITIZED_KERNEL=$copy/lshdb/kernel/compiled$suffix SANITIZED_RESULT=$work/result
export PYTHONPATH=$copy PYTHONMALLOC=malloc PYTHONDONTWRITEBYTECODE=1
# Leaks change no exit code: the interpreter has some of its own, and tests start interpreters. An
# error ends the process before it writes its result.
export ASAN_OPTIONS=detect_leaks=1:abort_on_error=1:log_path=$work/report:allocator_may_return_null=1
export LSAN_OPTIONS=exitcode=0:report_objects=0
export UBSAN_OPTIONS=print_stacktrace=1:abort_on_error=1:log_path=$work/report
cd "$copy"
code=1
LD_PRELOAD=$runtime "$python" "$work/run.py" "$@" || true
if [ -e "$work/result" ]; then code=$(cat "$work/result"); fi

shopt -s nullglob
for report in "$work"/report*; do
    if grep -q 'ERROR: AddressSanitizer\|runtime error' "$report"; then
        cat "$report"
        code=1
    # Blocks of a report of leaks are apart by an empty line; those of ours name a file of ours.
    elif grep -q 'lshdb/kernel/' "$report"; then
        awk -v RS= '/lshdb\/kernel\//' "$report"
        code=1
    fi
done
if [ "$code" = 0 ]; then echo "sanitizers: nothing to report"; else echo "sanitizers: FAILED" >&2; fi
exit "$code"
