# Sourced: runs the steps of a check one after the other, each under a limit of its own, and says what each took.
steps=() running= without=

# step NAME LIMIT COMMAND...: runs a command for at most LIMIT seconds; the check ends with the step that fails.
# The limits are several times what a step takes on two cores: they give a hang its name. The steps named by `without`,
# with commas between them, are left out.
step() {
  local name=$1 limit=$2 began=$SECONDS code=0
  [[ ",$without," != *",$name,"* ]] || return 0
  shift 2
  printf '\n==> %s\n' "$name"
  # In a process group of its own (-m), and waited for, so that a signal to the check ends the step at once and whole.
  set -m
  timeout --kill-after=20 "$limit" "$@" &
  running=$!
  set +m
  wait "$running" || code=$?
  running=
  steps+=("$(printf '%5d s  %s' $((SECONDS - began)) "$name")")
  case $code in
    0) return 0 ;;
    124 | 137) printf '\n<== %s: no end within %d s\n' "$name" "$limit" >&2 ;;
    *) printf '\n<== %s: failed with %d\n' "$name" "$code" >&2 ;;
  esac
  step_times >&2
  exit 1
}

trap '[ -z "$running" ] || { kill "$running"; wait "$running" || true; }; exit 130' INT TERM

# What each step took.
step_times() { printf '\n'; printf '%s\n' "${steps[@]}"; }
