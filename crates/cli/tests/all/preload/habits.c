/* What programs do with libpcap, of a device that is named on the command line: prints what it
   gets, a line each, for the test that started it. Frames have 100 or 200 bytes. */
#include <pcap/pcap.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <unistd.h>

static pcap_t *handle;

static void check(int holds, const char *what) {
    if (!holds) {
        printf("wrong: %s (%s)\n", what, pcap_geterr(handle));
        exit(1);
    }
}

static void on_alarm(int signal) {
    (void)signal;
    pcap_breakloop(handle);
}

static void count(u_char *user, const struct pcap_pkthdr *header, const u_char *bytes) {
    unsigned *counts = (unsigned *)user;
    counts[0]++;
    counts[1] += header->len;
    counts[2] += header->caplen;
    counts[3] += bytes[12] == 0x08;
}

/* Waits until there is something to read, as select says. */
static void wait_for_frames(void) {
    int fd = pcap_get_selectable_fd(handle);
    for (;;) {
        fd_set set;
        FD_ZERO(&set);
        FD_SET(fd, &set);
        struct timeval limit = {60, 0};
        check(select(fd + 1, &set, NULL, NULL, &limit) == 1, "select");
        struct pcap_pkthdr *header;
        const u_char *bytes;
        int found = pcap_next_ex(handle, &header, &bytes);
        check(found >= 0, "pcap_next_ex");
        if (found) {
            printf("first %u of %u, nanoseconds %d\n", header->caplen, header->len,
                   (long)header->ts.tv_usec < 1000000000L);
            return;
        }
    }
}

int main(int argc, char **argv) {
    char error[PCAP_ERRBUF_SIZE];
    setvbuf(stdout, NULL, _IOLBF, 0);
    handle = pcap_create(argv[argc - 1], error);
    if (!handle) {
        printf("wrong: %s\n", error);
        return 1;
    }
    check(pcap_datalink(handle) == PCAP_ERROR_NOT_ACTIVATED, "datalink before activation");
    check(pcap_dispatch(handle, 1, count, NULL) == PCAP_ERROR_NOT_ACTIVATED, "dispatch before");
    check(pcap_set_snaplen(handle, 150) == 0, "pcap_set_snaplen");
    check(pcap_set_timeout(handle, 100) == 0, "pcap_set_timeout");
    check(pcap_set_buffer_size(handle, 1 << 20) == 0, "pcap_set_buffer_size");
    check(pcap_set_immediate_mode(handle, 1) == 0, "pcap_set_immediate_mode");
    check(pcap_set_tstamp_precision(handle, PCAP_TSTAMP_PRECISION_NANO) == 0, "precision");
    check(pcap_can_set_rfmon(handle) == 0, "pcap_can_set_rfmon");
    int activated = pcap_activate(handle);
    if (activated) {
        printf("refused %d: %s\n", activated, pcap_geterr(handle));
        pcap_close(handle);
        return 0;
    }
    check(pcap_set_snaplen(handle, 60) == PCAP_ERROR_ACTIVATED, "too late");
    check(pcap_datalink(handle) == DLT_EN10MB && pcap_snapshot(handle) == 150, "datalink");
    check(pcap_get_tstamp_precision(handle) == PCAP_TSTAMP_PRECISION_NANO, "get precision");
    int *links;
    check(pcap_list_datalinks(handle, &links) == 1 && links[0] == DLT_EN10MB, "list");
    pcap_free_datalinks(links);
    check(pcap_set_datalink(handle, DLT_RAW) == -1, "set_datalink");
    check(pcap_fileno(handle) == pcap_get_selectable_fd(handle), "fileno");
    check(pcap_inject(handle, "x", 1) == -1, "inject");
    check(strstr(pcap_geterr(handle), "sends nothing") != NULL, "why not");

    unsigned counts[4] = {0};
    check(pcap_setnonblock(handle, 1, error) == 0, "nonblock");
    check(pcap_getnonblock(handle, error) == 1, "getnonblock");
    check(pcap_dispatch(handle, -1, count, (u_char *)counts) == 0, "nothing there");
    check(pcap_setnonblock(handle, 0, error) == 0, "block");
    check(pcap_dispatch(handle, -1, count, (u_char *)counts) == 0, "a time-out");
    check(pcap_setnonblock(handle, 1, error) == 0, "nonblock");
    printf("ready\n");
    wait_for_frames();

    struct bpf_program program;
    check(pcap_compile(handle, &program, "upd", 1, PCAP_NETMASK_UNKNOWN) == -1, "a wrong filter");
    printf("%s\n", pcap_geterr(handle));
    check(pcap_compile(handle, &program, "greater 200", 1, PCAP_NETMASK_UNKNOWN) == 0, "compile");
    check(pcap_setfilter(handle, &program) == 0, "setfilter");
    pcap_freecode(&program);
    check(pcap_setnonblock(handle, 0, error) == 0, "block");
    check(pcap_loop(handle, 49, count, (u_char *)counts) == 0, "loop");
    printf("loop %u frames, %u bytes, %u kept, %u\n", counts[0], counts[1], counts[2], counts[3]);

    signal(SIGALRM, on_alarm);
    alarm(1);
    check(pcap_loop(handle, -1, count, (u_char *)counts) == PCAP_ERROR_BREAK, "breakloop");
    struct pcap_stat stats;
    check(pcap_stats(handle, &stats) == 0, "stats");
    printf("and %u frames, %u bytes\n", counts[0], counts[1]);
    printf("stats %u %u %u\n", stats.ps_recv, stats.ps_drop, stats.ps_ifdrop);
    pcap_close(handle);
    return 0;
}
