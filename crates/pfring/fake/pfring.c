/*
 * What tests have in place of PF_RING's library: the functions that Ringside calls, with the
 * answers that the real ones give.
 *
 * An interface is received from by a packet socket, whose queue is the ring: frames of before
 * pfring_enable_ring are not in it, and a full one counts what it loses. As the module does, a VLAN
 * tag that the kernel took out is put back as 0x8100, unless it is 0. Members of a cluster are a
 * fanout group by flow; IF@N is one receive queue.
 *
 * `fake:FILE,drop=N,error=N,channels=N,bare=1` plays a file of pcap: every Nth frame is lost and
 * counted; after N frames the demonstration of a driver without a licence is over; a bare device
 * refuses to say what it has counted and what waits, as PF_RING's own devices of files do.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define FRAME_BYTES 66000
#define RING_BYTES (2 << 20)
#define TAG_BYTES 4
/* Of a millisecond and more each. */
#define STAMP_TRIES 5000
#define ANSWER_ERROR (-1)
#define ANSWER_INVALID (-2)
#define ANSWER_DEMO_OVER (-6)
#define ANSWER_UNSUPPORTED (-7)
#define ANSWER_NOT_ENABLED (-12)

struct header {
    int64_t seconds, microseconds;
    uint32_t caplen, len;
    uint64_t timestamp_ns;
    uint32_t flags;
    uint8_t is_received;
};

struct handle {
    int fd;
    int ifindex, channel;
    int enabled, mode;
    uint32_t caplen;
    uint64_t seen, dropped, read;
    /* Of a file. */
    unsigned char *file;
    size_t file_bytes, at;
    unsigned long every, limit, channels, passed, is_bare;
    unsigned char frame[FRAME_BYTES + TAG_BYTES];
};

static const struct sock_filter REJECT[] = {{BPF_RET | BPF_K, 0, 0, 0}};

static int filter(int fd, const struct sock_filter *code, unsigned short length)
{
    struct sock_fprog program = {length, (struct sock_filter *)code};
    return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
}

static unsigned long option(const char *text, const char *name)
{
    const char *found = strstr(text, name);
    return found ? strtoul(found + strlen(name), NULL, 10) : 0;
}

static int open_file(struct handle *ring, const char *words)
{
    char path[4096] = "";
    const char *end = strchrnul(words, ',');
    memcpy(path, words, (size_t)(end - words) < sizeof path ? (size_t)(end - words) : 0);
    FILE *file = fopen(path, "rb");
    if (!file)
        return -1;
    ring->file = malloc(64 << 20);
    ring->file_bytes = ring->file ? fread(ring->file, 1, 64 << 20, file) : 0;
    fclose(file);
    ring->at = 24;
    ring->every = option(end, ",drop=");
    ring->limit = option(end, ",error=");
    ring->channels = option(end, ",channels=");
    ring->is_bare = option(end, ",bare=");
    return 0;
}

/*
 * The kernel stamps frames on arrival only some time after a socket asked for that (it flips a
 * static key in a work queue: net_enable_timestamp). A frame that came before is stamped when it is
 * read, and so perhaps later than the next one, which no ring of PF_RING's does. Waits until a
 * datagram of our own is stamped before it is read; without a loopback interface it does not.
 */
static void await_stamps(void)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), one = 1;
    struct ifreq loopback = {.ifr_name = "lo"};
    if (!ioctl(fd, SIOCGIFFLAGS, &loopback) && !(loopback.ifr_flags & IFF_UP)) {
        loopback.ifr_flags |= IFF_UP;
        ioctl(fd, SIOCSIFFLAGS, &loopback);
    }
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof here;
    setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof one);
    if (!bind(fd, (struct sockaddr *)&here, length) &&
        !getsockname(fd, (struct sockaddr *)&here, &length) &&
        !connect(fd, (struct sockaddr *)&here, length)) {
        for (int tries = 0; tries < STAMP_TRIES && send(fd, &one, sizeof one, 0) > 0; tries++) {
            struct timespec before, stamp = {0};
            char control[CMSG_SPACE(sizeof stamp)];
            struct iovec bytes = {&one, sizeof one};
            struct msghdr message = {.msg_iov = &bytes, .msg_iovlen = 1};
            message.msg_control = control;
            message.msg_controllen = sizeof control;
            usleep(1000);
            clock_gettime(CLOCK_REALTIME, &before);
            if (recvmsg(fd, &message, MSG_DONTWAIT) < 0 || !CMSG_FIRSTHDR(&message))
                continue;
            memcpy(&stamp, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof stamp);
            if (stamp.tv_sec < before.tv_sec ||
                (stamp.tv_sec == before.tv_sec && stamp.tv_nsec < before.tv_nsec))
                break;
        }
    }
    close(fd);
}

static int open_interface(struct handle *ring, const char *device, int promiscuous)
{
    char name[64];
    snprintf(name, sizeof name, "%s", strncmp(device, "zc:", 3) ? device : device + 3);
    char *channel = strchr(name, '@');
    ring->channel = channel ? atoi(channel + 1) : -1;
    if (channel)
        *channel = 0;
    ring->ifindex = (int)if_nametoindex(name);
    ring->fd = ring->ifindex ? socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0) : -1;
    if (ring->fd < 0)
        return -1;
    int one = 1, bytes = RING_BYTES;
    struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_ifindex = ring->ifindex};
    address.sll_protocol = htons(ETH_P_ALL);
    struct packet_mreq all = {.mr_ifindex = ring->ifindex, .mr_type = PACKET_MR_PROMISC};
    setsockopt(ring->fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes);
    setsockopt(ring->fd, SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof one);
    await_stamps();
    setsockopt(ring->fd, SOL_PACKET, PACKET_AUXDATA, &one, sizeof one);
    if (promiscuous)
        setsockopt(ring->fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof all);
    if (filter(ring->fd, REJECT, 1))
        return -1;
    return bind(ring->fd, (struct sockaddr *)&address, sizeof address);
}

void pfring_close(struct handle *ring);

struct handle *pfring_open(const char *device, uint32_t caplen, uint32_t flags)
{
    struct handle *ring = calloc(1, sizeof *ring);
    if (!ring)
        return NULL;
    ring->fd = -1;
    ring->caplen = caplen;
    int is_file = !strncmp(device, "fake:", 5);
    int done = is_file ? open_file(ring, device + 5)
                       : open_interface(ring, device, (flags & (1 << 3)) != 0);
    if (done) {
        int why = errno;
        pfring_close(ring);
        errno = why;
        return NULL;
    }
    return ring;
}

void pfring_close(struct handle *ring)
{
    if (ring->fd >= 0)
        close(ring->fd);
    free(ring->file);
    free(ring);
}

int pfring_version(struct handle *ring, uint32_t *version)
{
    (void)ring;
    *version = 0x080900;
    return 0;
}

int pfring_set_application_name(struct handle *ring, char *name)
{
    return ring && name ? 0 : ANSWER_INVALID;
}

uint8_t pfring_get_num_rx_channels(struct handle *ring)
{
    return ring->channels ? (uint8_t)ring->channels : 1;
}

int pfring_set_direction(struct handle *ring, int direction)
{
    int ignore = direction == 1;
    if (ring->fd < 0)
        return ANSWER_UNSUPPORTED;
    return setsockopt(ring->fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &ignore, sizeof ignore);
}

int pfring_set_socket_mode(struct handle *ring, int mode)
{
    ring->mode = mode;
    return 0;
}

int pfring_set_poll_watermark(struct handle *ring, uint16_t watermark)
{
    return ring && watermark ? 0 : ANSWER_INVALID;
}

int pfring_set_cluster_consumer(struct handle *ring, uint16_t cluster, uint16_t queue, int type,
                                uint32_t options)
{
    (void)queue;
    if (ring->fd < 0 || type != 5 || options)
        return ANSWER_UNSUPPORTED;
    int group = cluster | PACKET_FANOUT_HASH << 16;
    return setsockopt(ring->fd, SOL_PACKET, PACKET_FANOUT, &group, sizeof group);
}

static void count(struct handle *ring)
{
    struct tpacket_stats now = {0};
    socklen_t bytes = sizeof now;
    if (ring->fd < 0 || getsockopt(ring->fd, SOL_PACKET, PACKET_STATISTICS, &now, &bytes))
        return;
    ring->seen += now.tp_packets;
    ring->dropped += now.tp_drops;
}

/* All of a file has come, and what is to be lost was lost. */
static void receive_file(struct handle *ring)
{
    uint32_t bytes;
    ring->seen = 0;
    for (size_t at = 24; at + 16 <= ring->file_bytes; at += 16 + bytes, ring->seen++)
        memcpy(&bytes, ring->file + at + 8, sizeof bytes);
    ring->dropped = ring->every ? ring->seen / ring->every : 0;
}

int pfring_enable_ring(struct handle *ring)
{
    ring->enabled = 1;
    if (ring->fd < 0)
        receive_file(ring);
    if (ring->fd < 0 || ring->mode == 1)
        return 0;
    const struct sock_filter channel[] = {
        {BPF_LD | BPF_W | BPF_ABS, 0, 0, (uint32_t)(SKF_AD_OFF + SKF_AD_QUEUE)},
        {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, (uint32_t)ring->channel},
        {BPF_RET | BPF_K, 0, 0, 0xffffffff},
        {BPF_RET | BPF_K, 0, 0, 0},
    };
    int none = 0;
    return ring->channel < 0
               ? setsockopt(ring->fd, SOL_SOCKET, SO_DETACH_FILTER, &none, sizeof none)
               : filter(ring->fd, channel, 4);
}

int pfring_disable_ring(struct handle *ring)
{
    ring->enabled = 0;
    return ring->fd < 0 ? 0 : filter(ring->fd, REJECT, 1);
}

/* The next frame of a file: 1, or 0 at its end. */
static int next_of_file(struct handle *ring, struct header *header)
{
    uint32_t words[4];
    for (;;) {
        if (ring->limit && ring->read >= ring->limit)
            return ANSWER_DEMO_OVER;
        if (ring->at + sizeof words > ring->file_bytes)
            return 0;
        memcpy(words, ring->file + ring->at, sizeof words);
        unsigned char *bytes = ring->file + ring->at + sizeof words;
        ring->at += sizeof words + words[2];
        if (ring->every && ++ring->passed % ring->every == 0)
            continue;
        memcpy(ring->frame + TAG_BYTES, bytes, words[2] < FRAME_BYTES ? words[2] : FRAME_BYTES);
        header->seconds = words[0];
        header->microseconds = words[1];
        header->caplen = words[2];
        header->len = words[3];
        return 1;
    }
}

/* The next frame of an interface: its bytes begin behind room for a tag. */
static int next_of_interface(struct handle *ring, struct header *header, unsigned char **bytes)
{
    union {
        char bytes[CMSG_SPACE(sizeof(struct tpacket_auxdata)) +
                   CMSG_SPACE(sizeof(struct timespec))];
        struct cmsghdr aligned;
    } control;
    struct iovec room = {ring->frame + TAG_BYTES, FRAME_BYTES};
    struct msghdr message = {.msg_iov = &room, .msg_iovlen = 1};
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof control.bytes;
    ssize_t length = recvmsg(ring->fd, &message, MSG_DONTWAIT);
    if (length < 0)
        /* The module says nothing of an interface that goes. */
        return 0;
    unsigned tag = 0;
    for (struct cmsghdr *part = CMSG_FIRSTHDR(&message); part; part = CMSG_NXTHDR(&message, part)) {
        if (part->cmsg_level == SOL_PACKET && part->cmsg_type == PACKET_AUXDATA) {
            struct tpacket_auxdata about;
            memcpy(&about, CMSG_DATA(part), sizeof about);
            tag = about.tp_status & TP_STATUS_VLAN_VALID ? about.tp_vlan_tci : 0;
        } else if (part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_TIMESTAMPNS) {
            struct timespec time;
            memcpy(&time, CMSG_DATA(part), sizeof time);
            header->seconds = time.tv_sec;
            header->microseconds = time.tv_nsec / 1000;
            header->timestamp_ns = (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
        }
    }
    *bytes = ring->frame + TAG_BYTES;
    if (tag) {
        unsigned char high = (unsigned char)(tag >> 8), low = (unsigned char)tag;
        unsigned char put_back[TAG_BYTES] = {0x81, 0, high, low};
        *bytes = ring->frame;
        memmove(ring->frame, ring->frame + TAG_BYTES, 12);
        memcpy(ring->frame + 12, put_back, TAG_BYTES);
        length += TAG_BYTES;
    }
    header->caplen = header->len = (uint32_t)length;
    return 1;
}

int pfring_recv(struct handle *ring, unsigned char **bytes, unsigned room, struct header *header,
                uint8_t wait)
{
    if (!ring->enabled)
        return ANSWER_NOT_ENABLED;
    if (ring->mode == 1 || room || wait)
        return ANSWER_UNSUPPORTED;
    unsigned char *frame = ring->frame + TAG_BYTES;
    int done = ring->fd < 0 ? next_of_file(ring, header) : next_of_interface(ring, header, &frame);
    if (done == 1) {
        ring->read++;
        if (header->caplen > ring->caplen)
            header->caplen = ring->caplen;
        *bytes = frame;
    }
    return done;
}

uint32_t pfring_get_num_queued_pkts(struct handle *ring)
{
    if (ring->is_bare)
        return (uint32_t)ANSWER_UNSUPPORTED;
    count(ring);
    return (uint32_t)(ring->seen - ring->dropped - ring->read);
}

int pfring_is_pkt_available(struct handle *ring)
{
    return ring->is_bare ? ANSWER_UNSUPPORTED : pfring_get_num_queued_pkts(ring) > 0;
}

int pfring_poll(struct handle *ring, unsigned milliseconds)
{
    struct pollfd one = {ring->fd, POLLIN, 0};
    if (ring->is_bare)
        return ANSWER_UNSUPPORTED;
    return ring->fd < 0 ? 1 : poll(&one, 1, (int)milliseconds);
}

int pfring_stats(struct handle *ring, uint64_t *counted)
{
    if (ring->is_bare)
        return ANSWER_UNSUPPORTED;
    count(ring);
    counted[0] = ring->read;
    counted[1] = ring->dropped;
    counted[2] = 0;
    return 0;
}

int pfring_send(struct handle *ring, char *bytes, unsigned length, uint8_t flush)
{
    (void)flush;
    if (ring->fd < 0)
        return ANSWER_UNSUPPORTED;
    ssize_t sent = send(ring->fd, bytes, length, MSG_DONTWAIT);
    return sent < 0 ? ANSWER_ERROR : (int)sent;
}

int pfring_flush_tx_packets(struct handle *ring)
{
    return ring->fd < 0 ? ANSWER_UNSUPPORTED : 0;
}
