# Sourced by the set-up scripts: where things go, one at a time, and what was installed from which inputs.
dir=${WEIR_INTEROP_DIR:-$root/target/interop}
mkdir -p "$dir"
exec </dev/null

# One set-up at a time, also when two checks start together.
exec 9>"$dir/.setup.lock"
flock 9

say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: %s\n' "$*" >&2; exit 1; }

# done_with NAME INPUT...: true when NAME was installed from exactly these files.
stamp_of() { cat "$@" | sha256sum | cut -d' ' -f1; }
done_with() { local name=$1; shift; [ "$(cat "$dir/.stamp-$name" 2>/dev/null)" = "$(stamp_of "$@")" ]; }
mark_done() { local name=$1; shift; stamp_of "$@" > "$dir/.stamp-$name"; }

# again COMMAND...: up to three attempts, for what comes over a network.
again() { "$@" || { sleep 10; "$@"; } || { sleep 30; "$@"; }; }

# debian PACKAGE FILE...: installs the packages whose file or command is missing.
debian() {
  local missing=()
  while [ $# -gt 0 ]; do
    [ -e "$2" ] || command -v "$2" >/dev/null || missing+=("$1")
    shift 2
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  say "installing Debian packages: ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  # An update fails for one source of many that the machine may have; what counts is whether the packages come.
  { again apt-get -qq update || true; again apt-get -qq -y install --no-install-recommends "${missing[@]}"; } >"$dir/apt.log" 2>&1 \
    || { cat "$dir/apt.log" >&2; die "apt-get failed"; }
}
