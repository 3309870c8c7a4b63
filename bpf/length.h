/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* How long a frame is, for programs whose every call counts. */
#ifndef RINGSIDE_LENGTH_H
#define RINGSIDE_LENGTH_H

#include "kernel.h"

/*
 * The kernel's own view of a frame. Whether one lies in several parts is all that is read there: of
 * nearly all others the length is known without a call, which costs as much as ten other steps. The
 * kernel shows it to programs under its own terms alone.
 */
struct xdp_buff {
	__u32 flags;
} __attribute__((preserve_access_index));
extern void *bpf_cast_to_kern_ctx(void *ctx) __ksym __weak; /* Linux 6.2 */
#define XDP_FLAGS_HAS_FRAGS 1 /* include/net/xdp.h */

static __always_inline __u32 length_of(struct xdp_md *ctx)
{
	if (bpf_cast_to_kern_ctx) {
		const struct xdp_buff *frame = bpf_cast_to_kern_ctx(ctx);

		if (likely(!(frame->flags & XDP_FLAGS_HAS_FRAGS)))
			return ctx->data_end - ctx->data;
	}
	return bpf_xdp_get_buff_len(ctx);
}

#endif
