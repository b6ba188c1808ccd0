//! Scenarios of the controller.
