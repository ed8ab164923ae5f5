#!/bin/sh
# The base of every test image: finishes the root file system once its packages are there.
set -eu

# The bootstrap satisfies "usrmerge or usr-is-merged" with the one that brings all of perl.
apt-get purge --yes usrmerge perl-modules-5.36 libperl5.36 libgdbm6 libtext-glob-perl libnumber-compare-perl

# Users and groups exist before any layer above is built, so no layer carries its own /etc/passwd
# and layers can be stacked in any combination. /bin/sh is what useradd gives: Open MPI then wraps its
# remote command in a test for ~/.profile, a case worth meeting in tests.
groupadd --system _ssh
groupadd --system rdma
useradd --system --no-create-home --home-dir /run/sshd --shell /usr/sbin/nologin sshd
useradd --uid 1000 --create-home --skel /nonexistent --shell /bin/sh mpiuser
# "*" refuses every password, as "!" does, but without sshd taking the account for a locked one.
usermod --password '*' mpiuser

rm -f /root/.bashrc /root/.profile
: >/etc/resolv.conf
mkdir -p /usr/share/muster
dpkg-query --show >/usr/share/muster/packages.debian
