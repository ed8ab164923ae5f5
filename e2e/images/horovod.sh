#!/bin/sh
# Programs that the sample of batch.test.bdap.com calls, with stand-ins for what is in no Debian package
# and needs the internet: `git clone` and `pip install` make what the sample expects, `python` runs a
# shell script, and `horovodrun` starts it as Horovod's own launcher does where it finds
# OMPI_MCA_plm_rsh_agent to be /etc/mpi/kubexec.sh: one remote command for each slot of the host list, in
# the launcher's directory, whatever -np says.
set -eu

cat >/usr/local/bin/git <<'GIT'
#!/bin/sh
[ "$1" = clone ] || exit 1
mkdir -p MPI-Operator/sample-python-train && cd MPI-Operator/sample-python-train
echo torch >requirements.txt
echo 'echo "training as $HOROVOD_RANK of $HOROVOD_SIZE on $(hostname)"' >main.py
GIT

cat >/usr/local/bin/pip <<'PIP'
#!/bin/sh
[ "$1 $2" = 'install -r' ] && [ -s "$3" ]
PIP

cat >/usr/local/bin/python <<'PYTHON'
#!/bin/sh
exec sh "$@"
PYTHON

cat >/usr/local/bin/horovodrun <<'HOROVODRUN'
#!/bin/sh
while :; do
    case $1 in
    -np) shift 2 ;;
    --hostfile) hosts=$2 && shift 2 ;;
    *) break ;;
    esac
done
if [ "$OMPI_MCA_plm_rsh_agent" != /etc/mpi/kubexec.sh ]; then
    echo 'horovodrun: no kubexec, and there is no ssh either' >&2
    exit 1
fi
size=$(sed -n 's/.* slots=//p' "$hosts" | awk '{ sum += $1 } END { print sum }')
rank=0
running=
while read -r host _; do
    command="cd $PWD > /dev/null 2>&1 ; HOROVOD_RANK=$rank HOROVOD_SIZE=$size $*"
    "$OMPI_MCA_plm_rsh_agent" "$host" "$command" </dev/null &
    running="$running $!"
    rank=$((rank + 1))
done <"$hosts"
code=0
for one in $running; do wait "$one" || code=$?; done
exit $code
HOROVODRUN
chmod 755 /usr/local/bin/git /usr/local/bin/pip /usr/local/bin/python /usr/local/bin/horovodrun
