#!/bin/sh
# Open MPI 5.0 from its wheel, in the directory it was configured for: moved elsewhere, parts of it
# look for each other in vain. Usage: openmpi5.sh compile|install
set -eu
prefix=/opt/openmpi
mkdir -p $prefix
cp -a /mnt/in/openmpi/. $prefix/

case $1 in
compile)
    for program in pi misbehave; do
        $prefix/bin/mpicc -O2 -Wall -o /mnt/out/$program /mnt/in/$program.c -Wl,-rpath,$prefix/lib
    done
    ;;
install)
    rm -rf $prefix/include $prefix/bin/mpicc $prefix/bin/mpicxx $prefix/bin/mpic++ $prefix/bin/mpiCC
    # A session of sshd has neither the image's environment nor a profile, only the default PATH.
    ln -s $prefix/bin/* /usr/local/bin/
    install /mnt/in/programs/* /home/mpiuser/
    install /mnt/in/programs/pi /usr/local/bin/pi
    mpirun --version | grep -F 'Open MPI) 5.0.'
    ;;
esac
