#!/bin/busybox sh
# shellcheck shell=dash
# SPDX-License-Identifier: Apache-2.0

# The first process of a compute host in a QEMU of its own, in its initial
# file system. Its root is the machine's, read only, with a tmpfs over it;
# what it is to be like stands in /parameters (see virtual.py).

set -e
export PATH=/bin
/bin/busybox --install -s /bin
# shellcheck source=/dev/null
. /parameters
# The last lines on the console are to be those that tell why.
trap 'poweroff -f' EXIT

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
for module in $MODULES; do
    modprobe "$module"
done
# The virtual functions that the host's driver has no use for.
for device in /sys/bus/pci/drivers/nvme/*/sriov_totalvfs; do
    echo 0 > "${device%/*}/sriov_drivers_autoprobe"
    cat "$device" > "${device%/*}/sriov_numvfs"
done

# Nobody changes the programs while a cloud is up, so they may be cached for
# ever; the configuration of the services may be changed.
NINE='trans=virtio,version=9p2000.L,msize=512000'
mkdir -p /lower /over /root
mount -t 9p -o "$NINE,cache=loose,ro" root /lower
mount -t tmpfs -o mode=755 over /over
mkdir /over/upper /over/work
mount -t overlay -o lowerdir=/lower,upperdir=/over/upper,workdir=/over/work \
    overlay /root
for directory in dev proc sys; do
    mount --move "/$directory" "/root/$directory"
done
cd /root
mount -t 9p -o "$NINE,cache=none,ro" etc ".$ETC_DIR"
mount -t 9p -o "$NINE,cache=none" log ./var/log/libvirt
mount -t 9p -o "$NINE,cache=none" cache ./var/cache/libvirt
# What must not be lost with the host, else nova-compute refuses to start.
mount -t 9p -o "$NINE,cache=mmap" data ".$DATA_DIR"
mount --bind ".$DATA_DIR/instances" ".$INSTANCES_DIR"
mount -t tmpfs -o mode=755 run ./run
mkdir -p dev/pts dev/shm run/libvirt run/lock run/sshd run/hugepages/2048
mount -t devpts devpts dev/pts
mount -t tmpfs shm dev/shm
mount -t cgroup2 cgroup2 sys/fs/cgroup

for node in sys/devices/system/node/node[0-9]*; do
    echo "$HUGE_PAGES" > "$node/hugepages/hugepages-2048kB/nr_hugepages"
done
mount -t hugetlbfs -o pagesize=2M hugetlbfs run/hugepages/2048

hostname "$NAME"
cp ".$ETC_DIR/$NAME/hosts" etc/hosts
cp ".$ETC_DIR/$NAME/ssh_config" etc/ssh/ssh_config
# Without PAM, sshd does not let a locked user in.
echo 'root:*:19000:0:99999:7:::' > etc/shadow
# A bash would read all of the user's .bashrc for each command.
sed -i 's,^\(root:.*:\)[^:]*$,\1/bin/sh,' etc/passwd
# What the machine has there is not for this host.
mount -t tmpfs -o mode=755 libvirt etc/libvirt
# Of guests that were evacuated nova removes only those that libvirt knows.
mkdir etc/libvirt/qemu
mount --bind ".$DATA_DIR/domains" etc/libvirt/qemu
mount -t tmpfs -o mode=755 libvirt var/lib/libvirt
rm -rf root/.ssh
cp ".$ETC_DIR/$NAME/libvirt/"* etc/libvirt/

ip link set lo up
ip link set eth0 up
ip address add 10.0.2.15/24 dev eth0
ip link set eth1 up
ip address add "$LAN_ADDRESS" dev eth1
# Who has to ask for an address, and gets no answer for three seconds, takes the
# host for gone; a connection is tried for longer.
for card in $LAN_CARDS; do
    arp -i eth1 -s "${card%=*}" "${card#*=}"
done

cp /bin/busybox run/busybox
echo "::respawn:$SSHD" > etc/inittab
exec switch_root -c /dev/console /root /run/busybox init
