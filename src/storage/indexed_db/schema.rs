//! The schema, one function per version step. A step is synchronous and changes nothing but stores and indexes; when
//! it fails the browser takes the whole upgrade back. Steps that were released are never edited, only followed.

use indexed_db_futures::{Build, Result, database::Database};
use web_sys::IdbTransaction;

use crate::storage::keys;

/// Sessions by the time of their last commit.
pub const BY_UPDATED: &str = "by_updated";
/// Sessions of a working directory by the time of their last commit.
pub const BY_CWD: &str = "by_cwd";
/// Remembered operations by their ids.
pub const BY_OPERATION: &str = "by_operation";

/// An upgrade under way.
pub struct Upgrade {
    /// The database, which can make and drop stores.
    pub database: Database,
    /// The transaction of the upgrade, which reaches the stores that are there.
    #[cfg_attr(
        not(test),
        expect(
            dead_code,
            reason = "the second step of the schema will be the first to need it"
        )
    )]
    pub transaction: IdbTransaction,
}

/// One step from a version to the next.
pub type Step = fn(&Upgrade) -> Result<()>;

/// Step `n` leads from version `n` to `n + 1`.
pub const STEPS: &[Step] = &[create_stores];

fn create_stores(upgrade: &Upgrade) -> Result<()> {
    let database = &upgrade.database;
    let store = |name: &'static str, key_path: &[&'static str]| {
        database
            .create_object_store(name)
            .with_key_path(key_path.into())
            .build()
    };

    let sessions = database
        .create_object_store(keys::SESSIONS)
        .with_key_path("id".into())
        .build()?;
    sessions
        .create_index(BY_UPDATED, ["updatedAt", "id"].into())
        .build()?;
    sessions
        .create_index(BY_CWD, ["cwd", "updatedAt", "id"].into())
        .build()?;

    store(keys::MESSAGES, &["sessionId", "index"])?;
    store(keys::OUTLINES, &["sessionId", "pack"])?;
    store(keys::SNAPSHOTS, &["sessionId", "position"])?;
    store(keys::CHECKPOINTS, &["sessionId", "position"])?;
    store(keys::COMPACTIONS, &["sessionId", "position"])?;
    let commits = store(keys::COMMITS, &["sessionId", "slot"])?;
    commits
        .create_index(BY_OPERATION, ["sessionId", "operationId"].into())
        .with_unique(true)
        .build()?;

    for name in keys::SHARED {
        database.create_object_store(*name).build()?;
    }
    Ok(())
}
