#!/bin/sh
# Fills a directory with Horovod's and DeepSpeed's own launcher code from the Python package index, in
# a virtual environment. Their native parts and torch are neither built nor installed: launchers do
# not use them. What DeepSpeed's launcher imports of the rest is in stand_ins/.
#
# Usage: prepare.sh DIRECTORY   Needs python3 with venv (Debian: python3-venv) and a package index.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
into=$1
rm -rf "$into"
python3 -m venv "$into"
python=$into/bin/python
pip() {
    action=$1
    shift
    "$python" -m pip --quiet --disable-pip-version-check "$action" --no-input "$@"
}
pip install psutil==7.1.3 cloudpickle==3.1.2 PyYAML==6.0.3 packaging==25.0
sources=$into/sources
pip download --no-deps --no-binary :all: --dest "$sources" horovod==0.28.1 deepspeed==0.19.8
for archive in "$sources"/*.tar.gz; do
    tar --extract --file "$archive" --directory "$sources"
done

packages=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
mkdir "$packages/horovod"
cp -r "$sources"/horovod-*/horovod/__init__.py "$sources"/horovod-*/horovod/common \
    "$sources"/horovod-*/horovod/runner "$packages/horovod"
cp -r "$here/stand_ins/deepspeed" "$packages"
cp -r "$sources"/deepspeed-*/deepspeed/launcher "$sources"/deepspeed-*/deepspeed/constants.py \
    "$packages/deepspeed"
cp "$sources"/deepspeed-*/deepspeed/utils/numa.py "$packages/deepspeed/utils"
cp "$here/horovodrun.py" "$into/horovodrun.py"
rm -rf "$sources"
