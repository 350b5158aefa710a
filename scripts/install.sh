#!/bin/sh
# Make .venv and install localpaged into it. Usage: scripts/install.sh VENV [GROUP]
# PYTHON names the interpreter; without it the newest python3 of at least 3.11 is taken.
# TORCH=cuda gets the build of torch that computes on NVIDIA cards, in the place of another one,
# TORCH=cpu the one for processors; without it the first is taken where an NVIDIA driver is.
set -eu
venv=$1
group=${2:-}

find_python() {
    for candidate in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    echo "localpaged needs Python 3.11 or newer; none was found. Set PYTHON=/path/to/python." >&2
    exit 1
}

if [ ! -x "$venv/bin/python" ]; then
    python=$(find_python)
    "$python" -m venv "$venv" || {
        echo "'$python -m venv' failed. On Debian and Ubuntu: apt install python3-venv" >&2
        exit 1
    }
fi
pip="$venv/bin/python -m pip --disable-pip-version-check"
# On a terminal it is shown what is fetched: torch alone can take minutes.
quiet=
[ -t 1 ] || quiet=--quiet
# Dependency groups need pip 25.1.
$pip install --quiet --upgrade 'pip>=25.1'

# What the installed torch was built for: cpu, cuda, or nothing.
installed=$("$venv/bin/python" -c 'import torch; print("cuda" if torch.version.cuda else "cpu")' \
    2>/dev/null || true)
wanted=${TORCH:-$installed}
if [ -z "$wanted" ]; then
    wanted=cpu
    if [ -e /proc/driver/nvidia/version ] || [ -e /dev/dxg ]; then wanted=cuda; fi
fi
case $wanted in
    cpu | cuda) ;;
    *)
        echo "TORCH must be cuda or cpu, not '$wanted'." >&2
        exit 1
        ;;
esac

# Without an NVIDIA driver a CUDA build of torch is gigabytes for nothing, so PyTorch's own index
# of CPU builds is asked first. Where it does not answer, the usual index serves as it does.
if [ "$(uname -s)" = Linux ] && [ "$wanted" = cpu ] && [ "$installed" != cpu ]; then
    $pip install $quiet --no-deps --constraint constraints.txt --retries 0 --timeout 5 \
        --force-reinstall --index-url https://download.pytorch.org/whl/cpu torch 2>/dev/null \
        || echo "PyTorch's index of CPU builds does not answer; using the usual package index."
fi
# The usual index has the build for CUDA, under the same version as the other one.
if [ "$wanted" = cuda ] && [ "$installed" = cpu ]; then
    $pip install --constraint constraints.txt --force-reinstall --no-deps torch
fi
project=.
[ "$wanted" = cpu ] || project='.[cuda]'
set -- --constraint constraints.txt --editable "$project"
[ -z "$group" ] || set -- "$@" --group "$group"
$pip install $quiet "$@"

# Of a package that it copies pip compiles the modules; of one that stays where it is nobody does
# before its first start.
"$venv/bin/python" -m compileall -q localpaged kernels \
    || echo "Modules could not be compiled; every start takes a little longer." >&2

# Steps are compiled for this processor now, so that the first chat need not wait for it.
"$venv/bin/python" -c '
from localpaged.engine.eight_bit import has_team_steps

if has_team_steps():
    from localpaged_kernels.cpu_step.compiled import is_kept
    from localpaged_kernels.cpu_step.threads import prepare

    if not is_kept():
        print("Compiling a step for this processor (some 15 seconds) ...", flush=True)
    prepare()
' || echo "Steps could not be compiled for this processor; the first chat will tell why." >&2
