"""The Go clients; their programs are in go/."""

from brokers import INTEROP
from kit import case

for what in ("roundtrip", "groups", "static", "offsets", "admin"):
    def franz(t, what=what):
        t.driver(INTEROP / "bin" / "franz", t.bootstrap, what)
    case("franz-go", what)(franz)

for level in ("2.1.0", "2.8.0", "3.6.0", "4.1.0"):
    def sarama(t, level=level):
        t.driver(INTEROP / "bin" / "sarama", t.bootstrap, level, "roundtrip", "groups", "admin")
    case("sarama", f"level {level}", seconds=10)(sarama)
