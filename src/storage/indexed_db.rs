//! Sessions in IndexedDB.
