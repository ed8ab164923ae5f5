#!/bin/sh
# MPICH 5 from its wheel, in the directory it was configured for. Usage: mpich.sh compile|install
set -eu
prefix=/opt/mpich
mkdir -p $prefix
cp -a /mnt/in/mpich/. $prefix/

case $1 in
compile)
    for program in pi misbehave; do
        $prefix/bin/mpicc -O2 -Wall -o /mnt/out/$program /mnt/in/$program.c -Wl,-rpath,$prefix/lib
    done
    ;;
install)
    # The second library of the standard ABI, and what only a compiler needs.
    rm -rf $prefix/include $prefix/lib/libmpi_abi* $prefix/bin/mpicc* $prefix/bin/mpicxx* $prefix/bin/mpic++*
    # The wheel has copies where a normal installation has links.
    ln -sf mpiexec.hydra $prefix/bin/mpiexec
    ln -sf mpiexec.hydra $prefix/bin/mpirun
    ln -s $prefix/bin/* /usr/local/bin/
    install /mnt/in/entrypoint.sh /entrypoint.sh
    install /mnt/in/programs/* /home/mpiuser/
    install /mnt/in/programs/pi /usr/local/bin/pi
    mpirun --version | grep -E 'Version: +5\.0\.'
    ;;
esac
