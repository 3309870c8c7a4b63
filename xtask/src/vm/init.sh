#!/bin/busybox sh
# First process of the emulated machine: loads modules, takes the host's files as its own, read
# only, and runs the script that the kernel's command line names. Kernel messages go to the second
# serial line, so the first one holds what the script says and nothing else.
export PATH=/bin
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
exec </dev/null >/dev/ttyS0 2>&1
for module in /modules/*; do
    insmod "$module" || echo "vm: cannot load $module"
done
# The host changes nothing while this runs, so everything may be cached.
mount -t 9p -o ro,trans=virtio,version=9p2000.L,msize=512000,cache=loose host /host ||
    { echo "vm: no host files"; poweroff -f; }
for folder in proc sys dev; do
    mount -o move /$folder /host/$folder
done
# Writable: /run only, as the checkout may lie anywhere else.
mount -t tmpfs -o mode=755 run /host/run
mkdir -p /host/run/tmp /host/run/netns
mkdir -p /host/dev/shm
mount -t tmpfs shm /host/dev/shm
mount -t bpf bpf /host/sys/fs/bpf
script=$(sed -n 's/.*ringside\.script=\([^ ]*\).*/\1/p' /host/proc/cmdline)
exec switch_root /host /bin/sh "$script"
