#!/bin/sh
# What the images of the manuals' own examples have, as far as those examples ask for it: Open MPI
# below /usr/local, a random walk, Python, and two Python programs that are run by their paths.
# Usage: seeds.sh compile|install
set -eu
sh /mnt/in/openmpi4.sh "$1"

case $1 in
compile)
    mpicc -O2 -Wall -o /mnt/out/random_walk /mnt/in/random_walk.c
    ;;
install)
    apt-get install --yes --no-install-recommends python3-minimal
    ln -s python3 /usr/bin/python
    for program in mpirun orted; do
        ln -s /usr/bin/$program /usr/local/bin/$program
    done
    install -D /mnt/in/programs/random_walk /usr/local/code/random_walk
    install -D /mnt/in/benchmark.py /home/mpiuser/scripts/tf_cnn_benchmarks/tf_cnn_benchmarks.py
    install -D /mnt/in/benchmark.py /opt/venv/bin/entrypoint.py
    dpkg-query --show >/usr/share/muster/packages.seeds
    ;;
esac
