#!/bin/sh
# OpenSSH as the image contract wants it: port 2222 on both sides, keys mounted at run time.
set -eu
apt-get update
apt-get install --yes --no-install-recommends openssh-server openssh-client

cd /mnt/in
install -m 644 ssh_config sshd_config /etc/ssh/
install -m 644 mpiuser.sshd_config /home/mpiuser/.sshd_config
mkdir -p /run/sshd
# Mount points of the job's key, with the modes OpenSSH expects of its directories.
install -d -m 700 /root/.ssh
install -d -m 700 -o mpiuser -g mpiuser /home/mpiuser/.ssh

dpkg-query --show >/usr/share/muster/packages.ssh
