//! Names the protocol of a peer that does not speak Kafka, from the four bytes that would be a frame's size.
//!
//! Each of these prefixes read as a size is a number of hundreds of megabytes, so no Kafka frame starts like this
//! below any sensible `socket.request.max.bytes`.

/// What the first four bytes of a connection are, if they are not a Kafka frame size. Input is untrusted.
pub(crate) fn foreign_protocol(first: [u8; 4]) -> Option<&'static str> {
    match &first {
        [0x16, 0x03, 0..=4, _] => Some("a TLS handshake"),
        [0x15, 0x03, 0..=4, _] => Some("a TLS alert"),
        b"GET " | b"POST" | b"HEAD" | b"PUT " | b"DELE" | b"OPTI" | b"PATC" | b"CONN" | b"TRAC" => {
            Some("HTTP")
        }
        b"PRI " => Some("HTTP/2"),
        b"HTTP" => Some("an HTTP response"),
        b"SSH-" => Some("SSH"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_protocols_that_people_point_at_a_kafka_port_are_named() {
        assert_eq!(foreign_protocol([0x16, 0x03, 0x01, 0x02]), Some("a TLS handshake"));
        assert_eq!(foreign_protocol(*b"GET "), Some("HTTP"));
        assert_eq!(foreign_protocol(*b"SSH-"), Some("SSH"));
    }

    #[test]
    fn frame_sizes_up_to_the_largest_request_are_not_mistaken() {
        for size in [0_i32, 14, 1 << 20, 100 << 20] {
            assert_eq!(foreign_protocol(size.to_be_bytes()), None);
        }
    }
}
