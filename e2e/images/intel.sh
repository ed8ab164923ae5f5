#!/bin/sh
# Intel MPI from its wheels. Usage: intel.sh compile|install
set -eu
prefix=/opt/impi
mkdir -p $prefix
cp -a /mnt/in/impi-rt/. $prefix/

case $1 in
compile)
    cp -a /mnt/in/impi-devel/. $prefix/
    for program in pi misbehave; do
        I_MPI_ROOT=$prefix $prefix/bin/mpigcc -O2 -Wall -o /mnt/out/$program /mnt/in/$program.c -Wl,-rpath,$prefix/lib
    done
    ;;
install)
    # Between hosts it speaks through a library that its wheels do not bring.
    apt-get update
    apt-get install --yes --no-install-recommends libfabric1
    dpkg-query --show >/usr/share/muster/packages.intel
    cd $prefix
    # Each library comes as three or four copies under different names: the one that programs
    # load stays. Fortran, Java, GPU, tuning and benchmark parts go.
    rm -rf share etc bin/IMB-* bin/mpitune_fast bin/*cpuinfo opt/mpi/tune_fast opt/mpi/etc/*.spv opt/mpi/etc/*.fatbin
    find lib -maxdepth 1 -type f ! -name libmpi.so.12 ! -name libmpicxx.so.12 ! -name libmpi_shm_heap_proxy.so -delete
    find opt/mpi/etc -name 'tuning_*' ! -name 'tuning_generic*' ! -name 'tuning_skx*' -delete
    ln -sf mpiexec.hydra bin/mpiexec
    ln -s $prefix/bin/* /usr/local/bin/
    install /mnt/in/entrypoint.sh /entrypoint.sh
    install /mnt/in/programs/* /home/mpiuser/
    install /mnt/in/programs/pi /usr/local/bin/pi
    I_MPI_ROOT=$prefix mpirun --version | grep -F 'Version 2021.'
    ;;
esac
