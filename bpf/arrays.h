/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Arrays that user space writes while a program reads them. */
#ifndef RINGSIDE_ARRAYS_H
#define RINGSIDE_ARRAYS_H

#include "kernel.h"

/* An array of user space's, as many values as it says; in whole pages, so on whole lines. */
#define RULES_ARRAY(name, bytes)                            \
	struct {                                            \
		__uint(type, BPF_MAP_TYPE_ARRAY);           \
		__uint(map_flags, BPF_F_MMAPABLE);          \
		__uint(max_entries, 1);                     \
		__uint(key_size, 4);                        \
		__uint(value_size, bytes);                  \
	} name SEC(".maps")

#endif
