#!/bin/sh
# MPICH 5 from its wheel, in the directory it was configured for. Usage: mpich.sh compile|install
set -eu
prefix=/opt/mpich
mkdir -p $prefix
cp -a /mnt/in/mpich/. $prefix/

case $1 in
compile)
    $prefix/bin/mpicc -O2 -Wall -o /mnt/out/pi /mnt/in/pi.c -Wl,-rpath,$prefix/lib
    ;;
install)
    # The second library of the standard ABI, and what only a compiler needs.
    rm -rf $prefix/include $prefix/lib/libmpi_abi* $prefix/bin/mpicc* $prefix/bin/mpicxx* $prefix/bin/mpic++*
    # The wheel has copies where a normal installation has links.
    ln -sf mpiexec.hydra $prefix/bin/mpiexec
    ln -sf mpiexec.hydra $prefix/bin/mpirun
    ln -s $prefix/bin/* /usr/local/bin/
    install /mnt/in/entrypoint.sh /entrypoint.sh
    install /mnt/in/pi /home/mpiuser/pi
    install /mnt/in/pi /usr/local/bin/pi
    mpirun --version | grep -E 'Version: +5\.0\.'
    ;;
esac
