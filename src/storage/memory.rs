//! Sessions in memory: for tests, for hosts without a database, and to compare others with.
