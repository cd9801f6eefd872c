#!/bin/sh
# Install what tests/slurm needs to start a Slurm of its own: daemons and clients, about 4 MB. Debian or Ubuntu, as root.
# RUNLEVEL=1 keeps the packages from starting the daemons.
set -eu
for program in munged slurmctld slurmd sbatch; do
    command -v "$program" >/dev/null || missing=yes
done
[ -n "${missing:-}" ] || exit 0
[ "$(id -u)" = 0 ] || { echo "$0: installing packages needs root" >&2; exit 1; }
command -v apt-get >/dev/null || { echo "$0: no apt-get here; install munge and Slurm another way" >&2; exit 1; }
apt-get update -q >/dev/null || true # an old package list may do
DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get -o DPkg::Lock::Timeout=120 \
    install -y -q --no-install-recommends munge slurmctld slurmd slurm-client >/dev/null
