//! DescribeCluster: the cluster's id and its brokers.

use weir_metadata::image::MetadataImage;
use weir_protocol::messages::ErrorCode;
use weir_protocol::messages::k60_describe_cluster::{
    DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse,
};

use super::k03_metadata::{CLUSTER_OPERATIONS, OPERATIONS_NOT_ASKED};
use crate::connection::ConnectionError;
use crate::request::{Reply, Request};

const BROKERS: i8 = 1;
const CONTROLLERS: i8 = 2;

/// Answers one request.
pub(crate) async fn handle(mut request: Request) -> Result<Option<Reply>, ConnectionError> {
    let asked = request.decode(DescribeClusterRequest::decode)?;
    let version = request.version;
    let refused = |error_code, message: String| DescribeClusterResponse {
        error_code: if version == 0 { ErrorCode::INVALID_REQUEST } else { error_code },
        error_message: Some(message),
        ..DescribeClusterResponse::default()
    };
    let response = match asked.endpoint_type {
        BROKERS => describe(&request, &asked),
        CONTROLLERS => refused(
            ErrorCode::MISMATCHED_ENDPOINT_TYPE,
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
                .to_string(),
        ),
        other => refused(ErrorCode::UNSUPPORTED_ENDPOINT_TYPE, format!("Unsupported endpoint type {other}")),
    };
    Ok(Some(request.reply(|w| response.encode(w, version)).await?))
}

fn describe(request: &Request, asked: &DescribeClusterRequest) -> DescribeClusterResponse {
    let broker = &request.broker;
    let image = broker.image();
    let ids = image.cluster().brokers().keys().copied();
    let brokers = ids.filter_map(|id| describe_broker(request, &image, id, asked.include_fenced_brokers));
    DescribeClusterResponse {
        error_message: None,
        cluster_id: broker.cluster_id.clone(),
        controller_id: broker.node_id,
        brokers: brokers.collect(),
        cluster_authorized_operations: match asked.include_cluster_authorized_operations {
            true => CLUSTER_OPERATIONS,
            false => OPERATIONS_NOT_ASKED,
        },
        ..DescribeClusterResponse::default()
    }
}

/// This broker, or one that was registered once and is fenced since.
fn describe_broker(
    request: &Request,
    image: &MetadataImage,
    id: i32,
    with_fenced: bool,
) -> Option<DescribeClusterBroker> {
    let broker = &request.broker;
    let registered = image.cluster().broker(id)?;
    let is_fenced = registered.fenced;
    if is_fenced && !with_fenced {
        return None;
    }
    let listener = request.connection.listener;
    let (host, port) = if id == broker.node_id {
        broker.advertised(listener)
    } else {
        let name = broker.listener_name(listener);
        let end_point = registered.end_points.iter().find(|end_point| end_point.name == name)?;
        (end_point.host.clone(), i32::from(end_point.port))
    };
    Some(DescribeClusterBroker {
        broker_id: id,
        host,
        port,
        rack: registered.rack.clone(),
        is_fenced,
        ..DescribeClusterBroker::default()
    })
}
