#!/bin/sh
# The image of examples/recipes, as far as the tests on a cluster run it: Open MPI, HPC Challenge and the bandwidth
# program. Usage: recipes.sh compile|install
set -eu
sh /mnt/in/openmpi4.sh "$1"

case $1 in
compile)
    mpicc -O2 -Wall -Wextra -o /mnt/out/bandwidth /mnt/in/bandwidth.c
    ;;
install)
    apt-get install --yes --no-install-recommends hpcc
    install /mnt/in/programs/bandwidth /usr/local/bin/bandwidth
    dpkg-query --show >/usr/share/muster/packages.recipes
    ;;
esac
