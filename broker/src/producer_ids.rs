//! Producer ids for idempotent producers, from blocks that the controller allocates.
//!
//! Invariant: an id is given out once, also across restarts, because a block is durable in the metadata log before its
//! first id is used. What is left of a block at a stop is not used again.

use std::ops::Range;

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use weir_metadata::controller::ApiError;
use weir_protocol::messages::ErrorCode;

use crate::broker::Broker;
use crate::errors::controller_code;

/// The rest of the current block.
#[derive(Debug)]
pub(crate) struct ProducerIds {
    left: Mutex<Range<i64>>,
    /// Held by the one who asks for the next block.
    asking: Semaphore,
}

impl Default for ProducerIds {
    fn default() -> Self {
        ProducerIds { left: Mutex::new(0..0), asking: Semaphore::new(1) }
    }
}

impl Broker {
    /// An id that no producer has had.
    ///
    /// # Errors
    /// The code for the client when no block can be had.
    pub(crate) async fn next_producer_id(&self) -> Result<i64, ErrorCode> {
        loop {
            if let Some(id) = self.producer_ids.left.lock().next() {
                return Ok(id);
            }
            let Ok(_asking) = self.producer_ids.asking.acquire().await else {
                return Err(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS);
            };
            // Another one may have asked meanwhile.
            if !self.producer_ids.left.lock().is_empty() {
                continue;
            }
            let (id, epoch) = (self.node_id, self.broker_epoch);
            let allocated = self
                .controller
                .run(move |controller| controller.allocate_producer_ids(id, epoch).into())
                .await;
            match allocated {
                Ok(Ok(block)) => {
                    *self.producer_ids.left.lock() = block.first_id..block.first_id + i64::from(block.size);
                }
                Ok(Err(ApiError { code, message })) => {
                    tracing::error!("no more producer ids: {message}");
                    return Err(code);
                }
                Err(error) => return Err(controller_code(&error)),
            }
        }
    }
}
