"""What kafka-python's fixtures import and its source distribution leaves out: a broker that somebody else runs."""


class ExternalService:
    """A broker that is there already. Nothing is started, nothing is stopped."""

    def __init__(self, host, port):
        self.host, self.port = host, port

    def open(self):
        pass

    def close(self):
        pass


class SpawnedService:
    def __init__(self, *args, **kwargs):
        raise RuntimeError("these tests run against a broker that is there already: set KAFKA_URI")
