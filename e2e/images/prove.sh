#!/bin/sh
# prove.sh: runs inside a finished test image, in namespaces of its own, and fails unless the image
# does what it is for: two local ranks as root and as mpiuser and, where OpenSSH is part of the
# image, a job over ssh to a second host (a network and a name of its own) as both users.
set -eu
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

printf '127.0.0.1 localhost\n10.77.0.1 launcher\n10.77.0.2 worker\n' >/etc/hosts

fail() {
    echo "prove: $1" >&2
    [ $# -lt 2 ] || cat "$2" >&2
    exit 1
}

# as USER COMMAND...
as() {
    user=$1
    shift
    case $user in
    root) HOME=/root "$@" ;;
    mpiuser) HOME=/home/mpiuser setpriv --reuid 1000 --regid 1000 --clear-groups "$@" ;;
    esac
}

# expect USER PROGRAM... : the output of pi on two ranks, and then only lines of that kind
expect() {
    log=/tmp/log.$1
    as "$@" >"$log" 2>&1 </dev/null || fail "as $*: exit code $?" "$log"
    grep -qx 'Workers: 2' "$log" || fail "as $*: not two ranks" "$log"
    grep -qx 'pi is approximately 3\.14[0-9]*' "$log" || fail "as $*: no result" "$log"
    ! grep -qvxE 'Workers: 2|rank [01] of 2 on [a-z]+|pi is approximately [0-9.]+' "$log" ||
        fail "as $*: it says more than it should" "$log"
}

if ! [ -x /usr/sbin/sshd ]; then
    # Open MPI looks for its remote shell even when all ranks are local, and then does not call it.
    export OMPI_MCA_plm_rsh_agent=/bin/false PRTE_MCA_plm_ssh_agent=/bin/false
fi
for user in root mpiuser; do
    expect $user mpirun -n 2 /home/mpiuser/pi
    expect $user mpirun -n 2 pi
done

if [ -x /entrypoint.sh ]; then
    mkdir -p /etc/mpi
    printf 'worker:2\nlate:1\n' >/etc/mpi/hostfile
    (sleep 0.3 && echo '10.77.0.3 late' >>/etc/hosts) &
    K_MPI_JOB_ROLE=launcher /entrypoint.sh getent hosts late >/tmp/log.entrypoint 2>&1 ||
        fail 'the entry point did not wait for a name' /tmp/log.entrypoint
fi

if ! [ -x /usr/sbin/sshd ]; then
    ! command -v ssh || fail 'ssh is there, sshd is not'
    exit 0
fi

# The key as the operator mounts it: root's files private, the others' readable and owned by root.
ssh-keygen -q -t ecdsa -b 521 -m PEM -N '' -f /tmp/id_rsa
mount_key() {
    chown root:root "$1" && chmod 755 "$1"
    for name in id_rsa id_rsa.pub authorized_keys; do
        source=/tmp/id_rsa.pub
        [ $name != id_rsa ] || source=/tmp/id_rsa
        install -m "$2" "$source" "$1/$name"
    done
}
mount_key /root/.ssh 600
mount_key /home/mpiuser/.ssh 644

listening() {
    grep -q ':08AE 00000000:0000 0A' /proc/$sshd/net/tcp 2>/dev/null
}

# over_ssh USER SSHD_OPTIONS... : a job on the worker alone
over_ssh() {
    user=$1
    shift
    as_worker="hostname worker; exec setpriv --reuid $(id -u $user) --regid $(id -g $user) --clear-groups"
    nsenter --net=/dev/worker unshare --uts sh -c "$as_worker /usr/sbin/sshd -De $*" 2>/tmp/sshd.log &
    sshd=$!
    tries=0
    until listening; do
        tries=$((tries + 1))
        [ $tries -lt 100 ] && kill -0 $sshd || fail "sshd as $user does not listen" /tmp/sshd.log
        sleep 0.05
    done
    said=$(as $user ssh worker 'id -un; hostname; command -v mpirun pi >/dev/null && echo found')
    [ "$said" = "$(printf '%s\nworker\nfound' $user)" ] || fail "ssh as $user said: $said" /tmp/sshd.log
    expect $user mpirun -n 2 $HOSTS /home/mpiuser/pi
    grep -qx 'rank 0 of 2 on worker' /tmp/log.$user || fail 'not on the worker' /tmp/log.$user
    # One rank on each host: only now do they talk over the network.
    expect $user mpirun -n 2 $BOTH_HOSTS /home/mpiuser/pi
    grep -qx 'rank 1 of 2 on worker' /tmp/log.$user || fail 'not on both hosts' /tmp/log.$user
    kill $sshd
    wait $sshd || :
}

# Slots are written in a different way for each family of launchers.
case $1 in
openmpi*) HOSTS='--host worker:2' BOTH_HOSTS='--host launcher:1,worker:1' ;;
mpich | intel) HOSTS='-hosts worker -ppn 2' BOTH_HOSTS='-hosts launcher,worker -ppn 1' ;;
esac
over_ssh root
over_ssh mpiuser -f /home/mpiuser/.sshd_config
