/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the frames and bytes of a running capture.
 * cc count.c -lringside_client_c && ./a.out SOCKET */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ringside.h"

int main(int argc, char **argv)
{
	char error[256];
	struct ringside_frame frame;
	uint64_t frames = 0, bytes = 0;
	int result;

	if (argc < 2) {
		fprintf(stderr, "usage: %s SOCKET [all]\n", argv[0]);
		return 2;
	}
	uint64_t from_ns = argc > 2 && strcmp(argv[2], "all") == 0 ? 0 : RINGSIDE_FROM_NOW;
	ringside_reader *reader = ringside_attach(argv[1], from_ns, error, sizeof(error));
	if (!reader) {
		fprintf(stderr, "%s\n", error);
		return 2;
	}
	printf("attached to %s\n", ringside_interface_name(reader, 0));
	fflush(stdout);
	while ((result = ringside_next(reader, &frame, 100)) != RINGSIDE_END) {
		if (result == RINGSIDE_TIMEOUT)
			continue;
		frames++;
		bytes += frame.captured_bytes;
	}
	printf("frames %" PRIu64 " bytes %" PRIu64 " missed %" PRIu64 "\n", frames, bytes,
	       ringside_missed(reader));
	ringside_detach(reader);
	return 0;
}
