//! Skills.
