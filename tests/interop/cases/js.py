"""kafkajs; its program is in js/."""

from brokers import INTEROP
from kit import HERE, case

for what in ("roundtrip", "groups", "admin"):
    def kafkajs(t, what=what):
        t.driver("node", HERE / "js" / "driver.js", t.bootstrap, what, env={"NODE_PATH": str(INTEROP / "js" / "node_modules"), "KAFKAJS_NO_PARTITIONER_WARNING": "1"})
    case("kafkajs", what)(kafkajs)
