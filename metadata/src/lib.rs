//! Kafka's metadata as pure state: properties, records, image and controller.
