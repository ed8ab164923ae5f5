#!/bin/sh
# Brings up one pod of an OpenMPI job: sh init.sh ROLE WORKERS EXEC TIMEOUT
# The master waits until every worker takes part in an MPI run, then becomes `sh -c EXEC`. A worker waits
# for its sidecar, serves with sshd, and ends when the sidecar says so. Gives up with 124.
set -eu

if [ $# -ne 4 ]; then
  echo "init.sh: expected ROLE WORKERS EXEC TIMEOUT, got $# words" >&2
  exit 1
fi
role=$1
workers=$2
program=$3
timeout=$4

base=/kubeflow/openmpi
signals=$base/data/.openmpi-controller
hostfile=$base/assets/hostfile
end=$(($(date +%s) + timeout))

# The first line of a container's last words tells the operator that the program never ran.
give_up() {
  echo "init.sh: $1" >&2
  { echo "initialisation: $1" >/dev/termination-log; } 2>/dev/null || true
  exit 124
}

in_time() {
  [ "$(date +%s)" -lt "$end" ]
}

# ssh takes the first value of a setting, so this wins over the job's assets: a worker must have the job's key.
# Other hosts are none of our business.
write_ssh_config() {
  echo "* $(cat "$base/secrets/id_rsa.pub")" >"$HOME/.ssh/known_workers" &&
    {
      echo "Host *-worker-*"
      echo "  StrictHostKeyChecking yes"
      echo "  UserKnownHostsFile $HOME/.ssh/known_workers"
      echo "Host *"
      cat "$base/assets/ssh_config"
    } >"$HOME/.ssh/config"
}

# Where `||` follows, the shell does not stop at a failure by itself.
prepare_home() {
  mkdir -p "$HOME/.openmpi" "$HOME/.ssh" &&
    cp "$base/assets/mca-params.conf" "$HOME/.openmpi/mca-params.conf" &&
    chmod 700 "$HOME/.ssh" &&
    cp "$base/secrets/id_rsa" "$base/secrets/id_rsa.pub" "$base/secrets/authorized_keys" "$HOME/.ssh" &&
    write_ssh_config &&
    chmod 400 "$HOME/.ssh/id_rsa" &&
    chmod 600 "$HOME/.ssh/authorized_keys" "$HOME/.ssh/config"
}

for file in id_rsa id_rsa.pub authorized_keys; do
  if [ ! -r "$base/secrets/$file" ]; then
    give_up "user $(id -u) cannot read $file of the Secret: is it there, and is runAsGroup set beside runAsUser?"
  fi
done
prepare_home || give_up "keys and settings could not be put into $HOME; the log of this container says why"
probed=$HOME/.openmpi/init-probe.log

# A variable that Open MPI is told to carry along should exist.
LD_LIBRARY_PATH=${LD_LIBRARY_PATH-}
export LD_LIBRARY_PATH

probe() {
  MPIEXEC_TIMEOUT=10 mpiexec -n "$workers" --map-by node --hostfile "$hostfile" \
    --allow-run-as-root true >"$probed" 2>&1
}

master() {
  if [ "$workers" -gt 0 ]; then
    until probe; do
      if ! in_time; then
        cat "$probed" >&2
        give_up "not all of $workers workers answered mpiexec within $timeout s"
      fi
      sleep 2
    done
  fi
  exec sh -c "$program"
}

# The job's own key is the host key: every pod of the job knows it, and the image need not have one.
prepare_sshd() {
  config=$HOME/.sshd/sshd_config
  mkdir -p "$HOME/.sshd" || return 1
  chmod 700 "$HOME/.sshd"
  cp "$base/assets/sshd_config" "$config" || return 1
  chmod 600 "$config"
  echo "PidFile $HOME/.sshd/sshd.pid" >>"$config"
  echo "HostKey $HOME/.ssh/id_rsa" >>"$config"
  # Where the sshd of root separates its privileges.
  [ "$(id -u)" -ne 0 ] || mkdir -p /run/sshd
}

worker() {
  trap 'exit 143' TERM
  until [ -e "$signals/SIGCONT" ]; do
    if [ -e "$signals/SIGTERM" ]; then
      why=$(head -c 500 "$signals/SIGTERM")
      give_up "the sidecar openmpi-controller ended before this worker could start: ${why:-see its log}"
    fi
    in_time || give_up "the sidecar openmpi-controller was not ready within $timeout s"
    sleep 1
  done
  prepare_sshd || give_up "sshd could not be prepared; the log of this container says why"
  /usr/sbin/sshd -D -e -f "$config" &
  sshd=$!
  until [ -e "$signals/SIGTERM" ]; do
    kill -0 "$sshd" 2>/dev/null || give_up "sshd ended; the log of this container says why"
    sleep 1
  done
  exit 0
}

case $role in
  master) master ;;
  worker) worker ;;
  *)
    echo "init.sh: the role is master or worker, not $role" >&2
    exit 1
    ;;
esac
