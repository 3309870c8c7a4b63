/* EAL, which a process starts once, and its threads. */
#define _GNU_SOURCE
#include "internal.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <rte_alarm.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_mbuf_dyn.h>

/* How long EAL's thread may take to give its rights up. */
#define ALARM_MS_MAX 5000

static _Thread_local char last_why[256];
int stamp_at = -1;
uint64_t stamp_flag;

const char *why(void)
{
	return last_why;
}

int refused(int error, const char *format, ...)
{
	va_list values;
	va_start(values, format);
	vsnprintf(last_why, sizeof last_why, format, values);
	va_end(values);
	return error < 0 ? error : error > 0 ? -error : -EIO;
}

static ringside_dpdk_log to_log;

static ssize_t log_write(void *cookie, const char *text, size_t bytes)
{
	(void)cookie;
	to_log(text, bytes);
	return bytes;
}

int start(int count, char **words, ringside_dpdk_log log)
{
	cookie_io_functions_t functions = { .write = log_write };
	to_log = log;
	FILE *stream = fopencookie(NULL, "w", functions);
	if (stream == NULL)
		return refused(errno, "a stream for the log");
	setvbuf(stream, NULL, _IOLBF, 0);
	rte_openlog_stream(stream);
	if (rte_eal_init(count, words) < 0)
		return refused(rte_errno, "rte_eal_init: %s", rte_strerror(rte_errno));
	if (rte_mbuf_dyn_rx_timestamp_register(&stamp_at, &stamp_flag) < 0)
		return refused(rte_errno, "no field for stamps: %s", rte_strerror(rte_errno));
	return 0;
}

/* Runs in EAL's thread for interrupts. */
static void give_up_rights(void *result)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { 0 };
	int refusal = 0;
	if (syscall(SYS_capset, &header, none) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		refusal = errno;
	atomic_store((atomic_int *)result, refusal);
}

int limit_threads(void)
{
	/* It outlives a call that gave up waiting. */
	static atomic_int result;
	atomic_store(&result, -1);
	int error = rte_eal_alarm_set(1, give_up_rights, (void *)&result);
	if (error != 0)
		return refused(error, "an alarm in EAL's thread");
	for (int waited = 0; waited < ALARM_MS_MAX; waited++) {
		error = atomic_load(&result);
		if (error >= 0)
			return error == 0 ? 0 : refused(error, "EAL's thread: %s", strerror(error));
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	}
	return refused(ETIMEDOUT, "EAL's thread does nothing");
}

int register_thread(void)
{
	return rte_thread_register() == 0
		       ? 0
		       : refused(rte_errno, "rte_thread_register: %s", rte_strerror(rte_errno));
}
