#!/usr/bin/env bash
# Installs what the interoperability suite, the attacks and the benchmarks need besides the Rust tool chain:
# Apache Kafka (two releases), foreign clients in Python, JavaScript, Go and C.
#
# Idempotent: what is there already is left alone. Everything lands under target/interop (WEIR_INTEROP_DIR
# chooses another place) except Debian packages, which are installed only when what is in them is missing.
# Needs Go (the version in tests/interop/go/go.mod), and root for Debian packages.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
here=$root/tests/interop
source "$root/tests/install.sh"

# --- Debian packages: tool chains, kcat, the C headers of librdkafka ---------------------------------------
debian default-jdk-headless javac maven mvn python3-venv python3 nodejs node npm npm gcc gcc kcat kcat \
  librdkafka-dev /usr/include/librdkafka/rdkafka.h
# A browser for the doctor's page: a machine that cannot have one goes without the checks that need it.
(debian chromium chromium) || say "no chromium: the doctor's page is not looked at in a browser"
for tool in java javac mvn python3 node npm go gcc kcat; do
  command -v "$tool" >/dev/null || die "$tool is missing"
done

# --- Apache Kafka: broker, tools, Connect, Streams ---------------------------------------------------------
dep() { printf '<dependency><groupId>%s</groupId><artifactId>%s</artifactId><version>%s</version></dependency>\n' "$@"; }
# release NAME VERSION ARTIFACT...: everything that these artifacts of one release need, in NAME-VERSION/libs.
release() {
  local name=$1 version=$2 home=$dir/$1-$2
  shift 2
  mkdir -p "$home"
  {
    printf '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>\n'
    printf '<groupId>weir</groupId><artifactId>interop</artifactId><version>1</version><dependencies>\n'
    for artifact in "$@"; do
      dep org.apache.kafka "$artifact" "$version"
    done
    # 4.x brings no logging backend of its own; 3.9 does.
    case $version in 4.*)
      dep org.slf4j slf4j-api 2.0.17
      dep org.apache.logging.log4j log4j-api 2.25.3
      dep org.apache.logging.log4j log4j-core 2.25.3
      dep org.apache.logging.log4j log4j-slf4j2-impl 2.25.3 ;;
    esac
    printf '</dependencies></project>\n'
  } > "$home/pom.xml"
  if done_with "$name-$version" "$home/pom.xml" && [ -d "$home/libs" ]; then
    say "Apache Kafka $version ($name) is there"
    return
  fi
  say "fetching Apache Kafka $version ($name)"
  rm -rf "$home/libs"
  (cd "$home" && again mvn -q -B dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory=libs) \
    >"$home/mvn.log" 2>&1 || { tail -30 "$home/mvn.log" >&2; die "mvn failed for Apache Kafka $version"; }
  mark_done "$name-$version" "$home/pom.xml"
}
release kafka 4.4.0 kafka_2.13 kafka-tools kafka-streams
release kafka 3.9.2 kafka_2.13 kafka-tools kafka-streams
# The file connectors of 4.4.0 are not published; 4.3.1 is the newest whole release of Connect.
release connect 4.3.1 connect-runtime connect-file
release connect 3.9.2 connect-runtime connect-file

# Our small Java mains, compiled once for each release against its own classes.
for version in 4.4.0 3.9.2; do
  home=$dir/kafka-$version
  if ! done_with "java-$version" "$here"/java/*.java; then
    say "compiling the Java drivers for $version"
    rm -rf "$home/classes"; mkdir -p "$home/classes"
    javac -nowarn -Xlint:none -proc:none -d "$home/classes" -cp "$home/libs/*" "$here"/java/*.java
    mark_done "java-$version" "$here"/java/*.java
  fi
done

# --- Python clients ----------------------------------------------------------------------------------------
if done_with python "$here/requirements.txt" && [ -x "$dir/venv/bin/python" ]; then
  say "Python clients are there"
else
  say "installing Python clients"
  rm -rf "$dir/venv"
  python3 -m venv "$dir/venv"
  again "$dir/venv/bin/pip" -q --disable-pip-version-check install --no-cache-dir -r "$here/requirements.txt" \
    >"$dir/pip.log" 2>&1 || { tail -30 "$dir/pip.log" >&2; die "pip failed"; }
  mark_done python "$here/requirements.txt"
fi

# --- JavaScript client -------------------------------------------------------------------------------------
if done_with js "$here/js/package.json" && [ -d "$dir/js/node_modules/kafkajs" ]; then
  say "kafkajs is there"
else
  say "installing kafkajs"
  mkdir -p "$dir/js"
  cp "$here/js/package.json" "$dir/js/"
  (cd "$dir/js" && again npm install --silent --no-audit --no-fund --no-package-lock) \
    >"$dir/npm.log" 2>&1 || { tail -30 "$dir/npm.log" >&2; die "npm failed"; }
  mark_done js "$here/js/package.json"
fi

# --- Go clients --------------------------------------------------------------------------------------------
mkdir -p "$dir/bin"
go_inputs=("$here"/go/go.mod "$here"/go/go.sum $(find "$here/go" -name '*.go' | sort))
if done_with go "${go_inputs[@]}" && [ -x "$dir/bin/franz" ] && [ -x "$dir/bin/sarama" ]; then
  say "Go clients are there"
else
  say "building the Go clients"
  (cd "$here/go" && again go build -mod=readonly -o "$dir/bin/" ./franz ./sarama) || die "go build failed"
  mark_done go "${go_inputs[@]}"
fi

# --- C: the load generators and the attacks of the benchmarks ----------------------------------------------
for program in rdload fetch floor bare attack; do
  inputs=("$root/bench/$program.c" "$root"/bench/*.h)
  if done_with "c-$program" "${inputs[@]}" && [ -x "$dir/bin/$program" ]; then continue; fi
  say "compiling bench/$program.c"
  lib=; [ $program = rdload ] && lib=-lrdkafka
  gcc -O2 -Wall -Wextra -Werror -Wno-unused-function -o "$dir/bin/$program" "$root/bench/$program.c" $lib -lpthread
  mark_done "c-$program" "${inputs[@]}"
done

say "ready in $dir"
