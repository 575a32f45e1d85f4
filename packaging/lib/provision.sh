# shellcheck shell=bash
# What the project's commands need on a machine, got once and kept: Debian packages, Airflow in virtual environments,
# a Debian trixie root with RabbitMQ 4. Sourced by tests/env, tests/run, packaging/quickstart and .ci/run.
#
# Everything is kept in ${XDG_CACHE_HOME:-~/.cache}/rmq-watcher under a name that says what it was made from, made under a
# lock, and counted as there only once it is complete; so several copies may ask for the same thing at once, and an
# interrupted attempt is made again. Delete the folder to start afresh.

RMQ_TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
RMQ_CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/rmq-watcher
mkdir -p "$RMQ_CACHE"

say() { echo "==> $*" >&2; }
die() { echo "error: $*" >&2; exit 1; }

# Runs a command as root: directly, or by sudo where that asks nothing.
as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"
  elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then sudo "$@"
  else die "'$*' needs root: run as root, or allow sudo without a password"
  fi
}

# Runs a command while holding the lock of a name. The lock's file descriptor is closed for the command's own children.
locked() {
  local name=$1 fd
  shift
  exec {fd}>"$RMQ_CACHE/$name.lock"
  flock "$fd"
  "$@" {fd}>&-
  exec {fd}>&-
}

cargo_on_path() {
  command -v cargo >/dev/null || PATH="$HOME/.cargo/bin:$PATH"
  command -v cargo >/dev/null || die "cargo is not on the PATH: install Rust $(sed -n 's/^channel = "\(.*\)"/\1/p' "$RMQ_TOP/rust-toolchain.toml") (rustup.rs)"
}

# --- Debian packages -------------------------------------------------------------------------------------------------

need_packages() {
  local missing=() p
  for p in "$@"; do
    [[ $(dpkg-query -W -f '${db:Status-Abbrev}' "$p" 2>/dev/null) == ii* ]] || missing+=("$p")
  done
  [ ${#missing[@]} -eq 0 ] || locked apt install_packages "${missing[@]}"
}

# A package that brings a service (rabbitmq-server) must not start it: the machine's policy file says no for that time.
install_packages() {
  local policy=/usr/sbin/policy-rc.d made="" rc=0
  say "installing Debian packages: $*"
  if [ ! -e $policy ]; then
    printf '#!/bin/sh\nexit 101\n' | as_root tee $policy >/dev/null
    as_root chmod +x $policy
    made=yes
  fi
  as_root apt-get -o DPkg::Lock::Timeout=300 -qq update >&2 || say "some package lists could not be fetched; trying with those there are"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 \
    install -y -qq --no-install-recommends "$@" >&2 </dev/null || rc=$?
  [ -z "$made" ] || as_root rm -f $policy
  [[ " $* " != *" rabbitmq-server "* ]] || [ ! -d /run/systemd/system ] || as_root systemctl disable -q rabbitmq-server >&2 || true
  [ $rc = 0 ] || die "apt-get could not install: $*"
}

# --- Virtual environments ---------------------------------------------------------------------------------------------

# The Python that both supported Airflow versions run on, in REPLY.
find_python() {
  local p
  for p in /usr/bin/python3 "$(command -v python3 || true)"; do
    [ -x "$p" ] && "$p" -c 'import sys, venv, ensurepip; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 12))' 2>/dev/null && { REPLY=$p; return; }
  done
  die "no Python 3.10 to 3.12 with the venv module: Airflow 2.11 needs one (Debian 12: apt-get install python3-venv)"
}

# The virtual environment with Airflow 2 or 3, in REPLY; made from the pin list if it is not there.
airflow_venv() {
  local version=$1 pins key
  case $version in 2) version=2.11.2 ;; 3) version=3.3.2 ;; *) die "no pin list for Airflow $1: 2 or 3" ;; esac
  pins=$RMQ_TOP/packaging/requirements/airflow-$version.txt
  find_python
  key=$({ cat "$pins"; "$REPLY" -VV; echo layout 1; } | sha256sum | cut -c1-12)
  local venv=$RMQ_CACHE/venv-$version-$key
  [ -e "$venv/complete" ] || locked "venv-$version" make_venv "$venv" "$pins" "$REPLY"
  REPLY=$venv
}

# Made where it stays, since its scripts name their interpreter by full path; `complete` is written last.
make_venv() {
  local venv=$1 pins=$2 python=$3
  [ ! -e "$venv/complete" ] || return 0
  say "making ${venv##*/} (about a minute)"
  rm -rf "$venv"
  "$python" -m venv "$venv" >&2 || die "$python cannot make a virtual environment in $venv"
  install_pins "$venv" "$pins"
  env -u PYTHONDONTWRITEBYTECODE "$venv/bin/python" -m compileall -q -j 2 "$venv"/lib/python3*/site-packages >/dev/null 2>&1 || true
  touch "$venv/complete"
}

# uv takes 5 s where pip takes 40; where it cannot be had or fails, pip does it.
install_pins() {
  local venv=$1 pins=$2 bundle=/etc/ssl/certs/ca-certificates.crt
  [ -n "${SSL_CERT_FILE:-}" ] || [ ! -e $bundle ] || export SSL_CERT_FILE=$bundle
  "$venv/bin/python" -m pip install -q --disable-pip-version-check uv >&2 || say "uv cannot be had; using pip"
  if [ -x "$venv/bin/uv" ] && UV_CACHE_DIR=$RMQ_CACHE/uv VIRTUAL_ENV=$venv "$venv/bin/uv" pip install -q --no-deps -r "$pins" >&2; then return; fi
  "$venv/bin/python" -m pip install -q --disable-pip-version-check --no-deps -r "$pins" >&2 || die "the packages of $pins could not be installed"
}

# --- RabbitMQ 4 ---------------------------------------------------------------------------------------------------------

# A Debian trixie root with RabbitMQ 4.0 and its Erlang, in REPLY. RMQ_TRIXIE_ROOT names one that is there already.
trixie_root() {
  local root=${RMQ_TRIXIE_ROOT:-$RMQ_CACHE/trixie-rabbitmq-1}
  [ -e "$root/usr/lib/rabbitmq" ] || locked trixie make_trixie "$root"
  REPLY=$root
}

make_trixie() {
  local root=$1 aside=$1.new
  [ ! -e "$root/usr/lib/rabbitmq" ] || return 0
  say "making ${root##*/} by debootstrap (about a minute)"
  as_root rm -rf "$aside"
  as_root debootstrap --variant=minbase --include=rabbitmq-server trixie "$aside" >"$RMQ_CACHE/debootstrap.log" 2>&1 ||
    { tail -n 15 "$RMQ_CACHE/debootstrap.log" >&2; die "debootstrap failed: see $RMQ_CACHE/debootstrap.log"; }
  as_root find "$aside/var/cache/apt/archives" "$aside/var/lib/apt/lists" -type f -delete
  as_root mkdir -p "$aside/node"
  as_root mv "$aside" "$root" || die "cannot move $aside to $root"
}
