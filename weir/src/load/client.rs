//! One connection to a broker: a request, its answer, the next one.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, ToSocketAddrs};
use weir_protocol::messages::k19_create_topics::{
    CreatableTopic, CreatableTopicConfig, CreateTopicsRequest, CreateTopicsResponse,
};
use weir_protocol::messages::{ApiKey, ErrorCode, RequestHeader};
use weir_protocol::wire::{Counter, DecodeError, EncodeError, Reader, Sink, put_i32};

use super::LoadError;

/// The largest answer that is read.
const MAX_ANSWER_BYTES: u32 = 4 << 20;
/// What decoding an answer may allocate.
const DECODE_BYTES: usize = 16 << 20;
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// An open connection.
pub(crate) struct Client {
    pub(super) stream: TcpStream,
    pub(super) head: Head,
    max_answer_bytes: u32,
}

/// Makes the heads of a connection's requests.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) correlation_id: i32,
    client_id: &'static str,
}

impl Head {
    /// Size prefix and header of the next request, whose body has `body_bytes`.
    pub(super) fn next(
        &mut self,
        api: ApiKey,
        version: i16,
        body_bytes: usize,
    ) -> Result<Vec<u8>, LoadError> {
        self.correlation_id = self.correlation_id.wrapping_add(1);
        let header = RequestHeader {
            request_api_key: api.code(),
            request_api_version: version,
            correlation_id: self.correlation_id,
            client_id: Some(self.client_id.to_string()),
            ..RequestHeader::default()
        };
        let header_version = api.request_header_version(version);
        let mut count = Counter::default();
        header.encode(&mut count, header_version)?;
        let mut head = Vec::with_capacity(4 + count.0);
        put_i32(&mut head, (count.0 + body_bytes) as i32);
        header.encode(&mut head, header_version)?;
        Ok(head)
    }
}

/// Reads the answer to the request with this correlation id from the stream.
pub(super) async fn read_answer<R>(
    stream: &mut (impl AsyncRead + Unpin),
    correlation_id: i32,
    (api, version): (ApiKey, i16),
    max_bytes: u32,
    decode: fn(&mut Reader<'_>, i16) -> Result<R, DecodeError>,
) -> Result<R, LoadError> {
    let read = async {
        let size = stream.read_i32().await?;
        let length = u32::try_from(size).ok().filter(|length| *length <= max_bytes);
        let Some(length) = length else {
            return Err(LoadError::TooLarge { api, size, limit: max_bytes });
        };
        let mut bytes = Vec::new();
        stream.take(u64::from(length)).read_to_end(&mut bytes).await?;
        if bytes.len() < length as usize {
            return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into());
        }
        let fail = |error| LoadError::Decode { api, error };
        let mut reader = Reader::new(&bytes, DECODE_BYTES.max(2 * bytes.len()));
        let found = reader.i32().map_err(fail)?;
        if found != correlation_id {
            return Err(LoadError::Correlation { found, expected: correlation_id });
        }
        if api.response_header_version(version) >= 1 {
            reader.u8().map_err(fail)?;
        }
        decode(&mut reader, version).map_err(fail)
    };
    match tokio::time::timeout(PATIENCE, read).await {
        Ok(answer) => answer,
        Err(_) => Err(LoadError::TimedOut { api, seconds: PATIENCE.as_secs() }),
    }
}

impl Client {
    /// Connects to a broker under a name that its log may show.
    pub(crate) async fn connect(
        address: impl ToSocketAddrs,
        client_id: &'static str,
    ) -> Result<Self, LoadError> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self::from_parts(stream, Head { correlation_id: 0, client_id }))
    }

    pub(super) fn from_parts(stream: TcpStream, head: Head) -> Self {
        Client { stream, head, max_answer_bytes: MAX_ANSWER_BYTES }
    }

    /// Takes answers of up to this size; a few of that size are in memory at a time.
    pub(crate) fn take_answers_of(&mut self, bytes: u32) {
        self.max_answer_bytes = self.max_answer_bytes.max(bytes);
    }

    /// Sends a request and reads its answer.
    pub(crate) async fn call<R>(
        &mut self,
        api: ApiKey,
        version: i16,
        encode: impl Fn(&mut dyn Sink) -> Result<(), EncodeError>,
        decode: fn(&mut Reader<'_>, i16) -> Result<R, DecodeError>,
    ) -> Result<R, LoadError> {
        let mut count = Counter::default();
        encode(&mut count)?;
        let mut request = self.head.next(api, version, count.0)?;
        encode(&mut request)?;
        self.stream.write_all(&request).await?;
        self.answer(api, version, decode).await
    }

    /// Reads the answer to the request sent last.
    pub(crate) async fn answer<R>(
        &mut self,
        api: ApiKey,
        version: i16,
        decode: fn(&mut Reader<'_>, i16) -> Result<R, DecodeError>,
    ) -> Result<R, LoadError> {
        let (id, limit) = (self.head.correlation_id, self.max_answer_bytes);
        read_answer(&mut self.stream, id, (api, version), limit, decode).await
    }

    /// Creates a topic with the broker's number of replicas.
    pub(crate) async fn create_topic(
        &mut self,
        name: &str,
        partitions: i32,
        configs: &[(&str, &str)],
    ) -> Result<(), LoadError> {
        const VERSION: i16 = 5;
        let request = CreateTopicsRequest {
            topics: vec![CreatableTopic {
                name: name.to_string(),
                num_partitions: partitions,
                replication_factor: -1,
                configs: configs
                    .iter()
                    .map(|(name, value)| CreatableTopicConfig {
                        name: (*name).to_string(),
                        value: Some((*value).to_string()),
                        ..CreatableTopicConfig::default()
                    })
                    .collect(),
                ..CreatableTopic::default()
            }],
            timeout_ms: 30_000,
            ..CreateTopicsRequest::default()
        };
        let answer = self
            .call(ApiKey::CreateTopics, VERSION, |w| request.encode(w, VERSION), CreateTopicsResponse::decode)
            .await?;
        match answer.topics.into_iter().find(|topic| topic.error_code != ErrorCode::NONE) {
            None => Ok(()),
            Some(refused) => Err(LoadError::Answer {
                api: ApiKey::CreateTopics,
                what: refused.name,
                code: refused.error_code,
                message: refused.error_message,
            }),
        }
    }
}
