#!/bin/sh
# enter.sh NETWORK LOWERS UPPER WORK ROOT INPUTS OUTPUTS COMMAND...
# Runs COMMAND in the root file system that LOWERS (topmost first, colon-separated) and UPPER make
# together, with INPUTS readable under /mnt/in and OUTPUTS writable under /mnt/out. Its caller has
# put it in mount and PID namespaces of its own (with NETWORK=own also network and UTS namespaces),
# so nothing here needs to be undone.
set -eu
[ $$ = 1 ] || { echo 'enter.sh: not in a PID namespace of its own' >&2; exit 1; }
network=$1 lowers=$2 upper=$3 work=$4 root=$5 inputs=$6 outputs=$7
shift 7

mount -t overlay -o "lowerdir=$lowers,upperdir=$upper,workdir=$work,redirect_dir=off" overlay "$root"
mount -t proc proc "$root/proc"
mount --bind /sys "$root/sys"
mount -o remount,bind,ro "$root/sys"

mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for device in null zero full random urandom tty; do
    : >"$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
mkdir "$root/dev/shm"
mount -t tmpfs -o mode=1777,size=64m tmpfs "$root/dev/shm" # as much as a container has
ln -s /proc/self/fd "$root/dev/fd"

# What builds and runs leave in these directories is no part of any layer.
for scratch in tmp var/cache var/lib/apt/lists; do
    mkdir -p "$root/$scratch"
    mount -t tmpfs -o mode=1777 tmpfs "$root/$scratch"
done
mount -t tmpfs tmpfs "$root/mnt"
mkdir "$root/mnt/in" "$root/mnt/out"
mount --bind "$inputs" "$root/mnt/in"
mount -o remount,bind,ro "$root/mnt/in"
mount --bind "$outputs" "$root/mnt/out"

if [ "$network" = own ]; then
    # Two hosts joined by a cable: this one is the launcher, /dev/worker the network of the other.
    worker=$root/dev/worker
    : >"$worker"
    unshare --net="$worker" true
    ip link add eth0 type veth peer name eth1
    ip link set eth1 netns "$worker"
    ip link set lo up
    ip address add 10.77.0.1/24 dev eth0
    ip link set eth0 up
    nsenter --net="$worker" ip link set lo up
    nsenter --net="$worker" ip address add 10.77.0.2/24 dev eth1
    nsenter --net="$worker" ip link set eth1 up
    hostname launcher
else
    mount --bind /etc/resolv.conf "$root/etc/resolv.conf"
fi

exec chroot "$root" /usr/bin/env -i HOME=/root DEBIAN_FRONTEND=noninteractive LC_ALL=C \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
