//! System prompt sections and their checkpoints.
