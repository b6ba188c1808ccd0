#!/usr/bin/env bash
# Fetches the test suites of foreign clients, each from its package registry and at one version, and builds them:
# franz-go (the Go module), librdkafka (in the npm package of its JavaScript client) and kafka-python (its source
# distribution). Idempotent; everything lands under target/interop/upstream. Runs after tests/setup.sh.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
source "$root/tests/install.sh"
here=$root/tests/upstream
up=$dir/upstream
mkdir -p "$up"

# --- franz-go: the test binary of kgo, at the version that tests/interop/go/go.mod names -----------------------
if done_with upstream-franz-go "$root"/tests/interop/go/go.{mod,sum} && [ -x "$up/kgo.test" ]; then
  say "the suite of franz-go is there"
else
  say "building the suite of franz-go"
  (cd "$root/tests/interop/go" && again go test -mod=readonly -c -o "$up/kgo.test" github.com/twmb/franz-go/pkg/kgo) || die "go test -c failed"
  mark_done upstream-franz-go "$root"/tests/interop/go/go.{mod,sum}
fi

# --- librdkafka: sources and tests of 2.15.1 -------------------------------------------------------------------
librdkafka=@confluentinc/kafka-javascript@1.10.1
# Without what the listed tests do not touch, and without the optimiser, for the sake of the time that it takes.
flags="--disable-gssapi --disable-curl --disable-lz4-ext --disable-optimization --disable-debug-symbols"
debian zlib1g-dev /usr/include/zlib.h libzstd-dev /usr/include/zstd.h libssl-dev /usr/include/openssl/ssl.h \
  rapidjson-dev /usr/include/rapidjson/document.h g++ /usr/bin/g++ make /usr/bin/make
if [ "$(cat "$dir/.stamp-upstream-librdkafka" 2>/dev/null)" = "$librdkafka $flags" ] && [ -x "$up/librdkafka/tests/test-runner" ]; then
  say "the suite of librdkafka is there"
else
  say "building the suite of librdkafka"
  rm -rf "$up/librdkafka" "$up/npm"; mkdir -p "$up/npm"
  (
    cd "$up/npm" && again npm pack --silent "$librdkafka" && tar xzf ./*.tgz package/deps/librdkafka && mv package/deps/librdkafka "$up/"
    cd "$up/librdkafka" && ./configure $flags
    make -j2 libs && make -j2 -C tests test-runner && make -C tests/interceptor_test
  ) >"$up/librdkafka.log" 2>&1 || { tail -30 "$up/librdkafka.log" >&2; die "librdkafka was not built"; }
  rm -rf "$up/npm"
  echo "$librdkafka $flags" > "$dir/.stamp-upstream-librdkafka"
fi

# --- kafka-python: its integration tests; the package leaves out two modules, which are ours --------------------
inputs=("$here/requirements.txt" "$here"/kafka-python/test/*.py)
if done_with upstream-kafka-python "${inputs[@]}" && [ -x "$up/venv/bin/pytest" ]; then
  say "the suite of kafka-python is there"
else
  say "installing the suite of kafka-python"
  rm -rf "$up/kafka-python" "$up/venv" "$up/sdist"; mkdir -p "$up/kafka-python"
  (
    python3 -m venv "$up/venv"
    again "$up/venv/bin/pip" -q --disable-pip-version-check install --no-cache-dir -r "$here/requirements.txt"
    again "$up/venv/bin/pip" -q --disable-pip-version-check download --no-deps --no-binary :all: -d "$up/sdist" "$(grep ^kafka-python== "$here/requirements.txt")"
    tar xzf "$up"/sdist/*.tar.gz -C "$up/kafka-python" --strip-components=1 --wildcards '*/test/*'
    cp "$here"/kafka-python/test/*.py "$up/kafka-python/test/"
  ) >"$up/kafka-python.log" 2>&1 || { tail -30 "$up/kafka-python.log" >&2; die "kafka-python's suite was not installed"; }
  rm -rf "$up/sdist"
  mark_done upstream-kafka-python "${inputs[@]}"
fi
say "upstream suites are ready in $up"
