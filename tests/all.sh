#!/usr/bin/env bash
# The project's tests, all of them, with one command: the workspace's own, then unmodified foreign clients and their
# own test suites against weir, then harm to processes and disks, the memory attacks, a Kafka that runs out of memory before
# the doctor, and the kill -9 loops in their short variants. Installs what it needs, starts every server itself, leaves no
# process behind. Ends with a non-zero exit code at the first step that fails.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
exec </dev/null
source tests/steps.sh

# The same surroundings on every machine: its proxies are not for a broker on 127.0.0.1, nor is a locale of its user.
export no_proxy="127.0.0.1,localhost${no_proxy:+,$no_proxy}" LC_ALL=C.UTF-8 PYTHONUTF8=1
export NO_PROXY=$no_proxy
# As many descriptors as the attacks want, or what there are; no cores of processes that are killed on purpose.
ulimit -n 20000 2>/dev/null || ulimit -Sn "$(ulimit -Hn)"
ulimit -c 0
[ "${1-}" != --without ] || without=$2
dir=${WEIR_INTEROP_DIR:-$root/target/interop}
# The attacks write some gigabytes, and the doctor's heap dumps take one: not into a temporary directory that is too small.
if [ "$(df --output=avail -k "${TMPDIR:-/tmp}" | tail -1)" -lt 8000000 ]; then
  printf '%s has less than 8 GB: temporary files go to %s\n' "${TMPDIR:-/tmp}" "$dir/tmp"
  mkdir -p "$dir/tmp"
  export TMPDIR=$dir/tmp
fi

# One build for everything that follows: optimised, with assertions.
export WEIR_BIN=$(realpath -m "${CARGO_TARGET_DIR:-$root/target}")/checked/weir
# Tests that compare with Apache Kafka's own classes find them here.
export WEIR_KAFKA_LIBS=$dir/kafka-4.4.0/libs
export WEIR_KAFKA_3_9_LIBS=$dir/kafka-3.9.2/libs
export WEIR_ORACLE_CLASSPATH=$WEIR_KAFKA_LIBS:$WEIR_KAFKA_3_9_LIBS

step 'set-up: foreign clients' 1800 tests/setup.sh
step 'set-up: their test suites' 1800 tests/upstream/setup.sh
# Set-up may need them to reach the network; the JVMs of the tests print a line for each, where none is expected.
unset JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS CLASSPATH
step 'build' 2400 cargo build --profile checked --workspace --all-targets
step 'workspace' 3600 cargo test --profile checked --workspace
step 'foreign clients' 3000 python3 tests/interop/run.py --start weir --budget 64MiB --report "$dir/report.json"
step 'their test suites' 3000 python3 tests/upstream/run.py --start weir --budget 64MiB --report "$dir/upstream.json"
step 'faults' 3000 python3 tests/faults/run.py --report "$dir/faults.json"
step 'attacks' 3000 python3 bench/attack.py --start weir --budget 64MiB --short --check --report "$dir/attacks.json"
command -v chromium >/dev/null || export WEIR_NO_BROWSER=1
step 'doctor' 3000 python3 tests/doctor/run.py
step 'kill -9' 3000 python3 tests/crash/run.py --short --report "$dir/crash.json"
step_times
