//! Tests of append-only files.
