//! DescribeClientQuotas: there are no quotas yet.

use std::collections::BTreeSet;

use weir_protocol::messages::ErrorCode;
use weir_protocol::messages::k48_describe_client_quotas::{
    ComponentData, DescribeClientQuotasRequest, DescribeClientQuotasResponse,
};

use crate::connection::ConnectionError;
use crate::request::{Reply, Request};

/// Entities that quotas are for.
const ENTITY_TYPES: [&str; 3] = [IP, "user", "client-id"];
const IP: &str = "ip";

/// How a component of a filter matches.
const EXACT: i8 = 0;
const DEFAULT: i8 = 1;
const SPECIFIED: i8 = 2;

/// Answers that no entity has a quota, where the filter makes sense.
pub(crate) async fn handle(mut request: Request) -> Result<Option<Reply>, ConnectionError> {
    let asked = request.decode(DescribeClientQuotasRequest::decode)?;
    let response = match check(&asked.components) {
        Ok(()) => DescribeClientQuotasResponse {
            entries: Some(Vec::new()),
            ..DescribeClientQuotasResponse::default()
        },
        Err((error_code, message)) => DescribeClientQuotasResponse {
            error_code,
            error_message: Some(message),
            entries: None,
            ..DescribeClientQuotasResponse::default()
        },
    };
    Ok(Some(request.reply(|w| response.encode(w, request.version)).await?))
}

/// Checks a filter component by component, in Kafka's order and words.
fn check(components: &[ComponentData]) -> Result<(), (ErrorCode, String)> {
    let invalid = |message: String| Err((ErrorCode::INVALID_REQUEST, message));
    let mut seen = BTreeSet::new();
    for component in components {
        let entity_type = component.entity_type.as_str();
        if entity_type.is_empty() {
            return invalid("Invalid empty entity type.".to_string());
        }
        if seen.contains(entity_type) {
            return invalid(format!("Entity type {entity_type} cannot appear more than once in the filter."));
        }
        if !ENTITY_TYPES.contains(&entity_type) {
            return Err((ErrorCode::UNSUPPORTED_VERSION, format!("Unsupported entity type {entity_type}")));
        }
        match (component.match_type, &component.r#match) {
            (EXACT, Some(_)) | (DEFAULT | SPECIFIED, None) => {}
            (EXACT, None) => {
                return invalid(
                    "Request specified MATCH_TYPE_EXACT, but set match string to null.".to_string(),
                );
            }
            (DEFAULT, Some(_)) => {
                return invalid(
                    "Request specified MATCH_TYPE_DEFAULT, but also specified a match string.".to_string(),
                );
            }
            (SPECIFIED, Some(_)) => {
                return invalid(
                    "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.".to_string(),
                );
            }
            (other, _) => return invalid(format!("Unknown match type {other}")),
        }
        seen.insert(entity_type);
    }
    if seen.contains(IP) && seen.len() > 1 {
        return invalid(
            "Invalid entity filter component combination. IP filter component should not be used with user or \
             clientId filter component."
                .to_string(),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_that_make_no_sense_are_refused() {
        let check = |components: &[(&str, i8, Option<&str>)]| {
            let component = |(entity_type, match_type, text): &(&str, i8, Option<&str>)| ComponentData {
                entity_type: (*entity_type).to_string(),
                match_type: *match_type,
                r#match: text.map(str::to_string),
                ..ComponentData::default()
            };
            check(&components.iter().map(component).collect::<Vec<_>>()).map_err(|(code, _)| code)
        };
        assert_eq!(check(&[]), Ok(()));
        assert_eq!(check(&[("user", EXACT, Some("u")), ("client-id", DEFAULT, None)]), Ok(()));
        assert_eq!(check(&[("ip", SPECIFIED, None)]), Ok(()));
        for nonsense in [
            &[("", SPECIFIED, None)][..],
            &[("user", EXACT, None)],
            &[("user", DEFAULT, Some("u"))],
            &[("user", SPECIFIED, Some("u"))],
            &[("user", 3, None)],
            &[("user", SPECIFIED, None), ("user", DEFAULT, None)],
            &[("user", SPECIFIED, None), ("ip", SPECIFIED, None)],
        ] {
            assert_eq!(check(nonsense), Err(ErrorCode::INVALID_REQUEST), "{nonsense:?}");
        }
        assert_eq!(check(&[("colour", SPECIFIED, None)]), Err(ErrorCode::UNSUPPORTED_VERSION));
    }
}
