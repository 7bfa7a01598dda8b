/* Whether x86-64 instructions may be chosen at run time. LSHDB_NO_X86 leaves them out, as on every other
   machine; a test builds the kernel with it. */

#ifndef LSHDB_MACHINE_H
#define LSHDB_MACHINE_H

#if defined(__x86_64__) && defined(__GNUC__) && !defined(LSHDB_NO_X86)
#define LSHDB_X86 1
#endif

#endif
