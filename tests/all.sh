#!/usr/bin/env bash
# The project's tests, all of them, with one command: the workspace's own, then unmodified foreign clients against
# weir, then harm done to its process, files and disk, then the memory attacks and the kill -9 loops in their short
# variants. Needs what tests/setup.sh installs (it is run first). Ends with a non-zero exit code when anything failed;
# leaves no process behind.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
exec </dev/null

tests/setup.sh
dir=${WEIR_INTEROP_DIR:-$root/target/interop}

# Tests that compare with Apache Kafka's own classes find them here.
export WEIR_KAFKA_LIBS=$dir/kafka-4.4.0/libs
export WEIR_ORACLE_CLASSPATH=$WEIR_KAFKA_LIBS:$dir/kafka-3.9.2/libs
cargo test --workspace

cargo build --release -p weir
export WEIR_BIN=$root/target/release/weir
python3 tests/interop/run.py --start weir --budget 64MiB --report "$dir/report.json"
python3 tests/faults/run.py --report "$dir/faults.json"
python3 bench/attack.py --start weir --budget 64MiB --short --check --report "$dir/attacks.json"
python3 tests/crash/run.py --start weir --short --report "$dir/crash.json"
