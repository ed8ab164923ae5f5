#!/bin/sh
# Entry point of the Hydra images (MPICH, Intel MPI). Hydra gives up at once on a name it cannot
# resolve, and the names of a new job appear in DNS a little later than its launcher: so a launcher
# waits for each of them, bounded, and then runs its arguments whatever the outcome.

oneapi=/opt/intel/oneapi/setvars.sh
if [ -r "$oneapi" ]; then
    . "$oneapi" >/dev/null
fi

# Ten tries, 0.1 s apart at first and twice as far each time: 51 s for a name that never comes.
wait_for_name() {
    for pause in 0.1 0.2 0.4 0.8 1.6 3.2 6.4 12.8 25.6 0; do
        getent hosts "$1" >/dev/null && return 0
        sleep "$pause"
    done
    echo "entrypoint: $1 still has no address; continuing without it" >&2
}

if [ "${K_MPI_JOB_ROLE:-}" = launcher ]; then
    wait_for_name "$(hostname)"
    if [ -r /etc/mpi/hostfile ]; then
        while read -r line; do
            host=${line%%[: ]*}
            case $host in '' | '#'*) continue ;; esac
            wait_for_name "$host"
        done </etc/mpi/hostfile
    fi
fi

exec "$@"
