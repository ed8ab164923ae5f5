#!/bin/sh
# Open MPI 4.1 as Debian packages it. Usage: openmpi4.sh compile|install
set -eu
apt-get update

# The packages insist on OpenSSH; whether an image has it is decided by another layer.
mkdir -p /tmp/stand-in/DEBIAN
cat >/tmp/stand-in/DEBIAN/control <<'CONTROL'
Package: openssh-client
Version: 1:99
Architecture: all
Maintainer: muster
Description: stands for what another layer may bring
CONTROL
dpkg-deb --build /tmp/stand-in /tmp/stand-in.deb
dpkg --install /tmp/stand-in.deb

case $1 in
compile)
    apt-get install --yes --no-install-recommends libopenmpi-dev
    for program in pi misbehave; do
        mpicc -O2 -Wall -o /mnt/out/$program /mnt/in/$program.c
    done
    ;;
install)
    apt-get install --yes --no-install-recommends openmpi-bin
    mpirun --version | grep -F 'Open MPI) 4.1.'
    install /mnt/in/programs/* /home/mpiuser/
    install /mnt/in/programs/pi /usr/local/bin/pi
    dpkg-query --show >/usr/share/muster/packages.openmpi4
    ;;
esac
