//! The schema, one function per version step. A step is synchronous and changes nothing but stores and indexes; when
//! it fails the browser takes the whole upgrade back. Steps that were released are never edited, only followed.

use js_sys::Array;
use wasm_bindgen::JsValue;
use web_sys::{IdbDatabase, IdbIndexParameters, IdbObjectStore, IdbObjectStoreParameters, IdbTransaction};

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
    pub database: IdbDatabase,
    /// The transaction of the upgrade, which reaches the stores that are there.
    pub transaction: IdbTransaction,
}

/// One step from a version to the next.
pub type Step = fn(&Upgrade) -> Result<(), JsValue>;

/// Step `n` leads from version `n` to `n + 1`.
pub const STEPS: &[Step] = &[create_stores, create_approvals, shorten_outlines];

fn create_stores(upgrade: &Upgrade) -> Result<(), JsValue> {
    let database = &upgrade.database;
    let store = |name: &str, key_path: &[&str]| make(database, name, key_path);

    let sessions = store(keys::SESSIONS, &["id"])?;
    index(&sessions, BY_UPDATED, &["updatedAt", "id"], false)?;
    index(&sessions, BY_CWD, &["cwd", "updatedAt", "id"], false)?;

    store(keys::MESSAGES, &["sessionId", "index"])?;
    store(keys::OUTLINES, &["sessionId", "pack"])?;
    store(keys::SNAPSHOTS, &["sessionId", "position"])?;
    store(keys::CHECKPOINTS, &["sessionId", "position"])?;
    store(keys::COMPACTIONS, &["sessionId", "position"])?;
    let commits = store(keys::COMMITS, &["sessionId", "slot"])?;
    index(&commits, BY_OPERATION, &["sessionId", "operationId"], true)?;

    for name in keys::SHARED {
        database.create_object_store(name)?;
    }
    Ok(())
}

fn create_approvals(upgrade: &Upgrade) -> Result<(), JsValue> {
    make(&upgrade.database, keys::APPROVALS, &["sessionId", "requestId"])?;
    Ok(())
}

/// From here on outlines are written in a form that is read fast. The old form is read too: to rewrite what is stored would keep
/// somebody with many sessions waiting, and what knew the old form alone must not open the database any more.
#[expect(clippy::unnecessary_wraps, reason = "a step may fail")]
fn shorten_outlines(_: &Upgrade) -> Result<(), JsValue> {
    Ok(())
}

fn make(database: &IdbDatabase, name: &str, key_path: &[&str]) -> Result<IdbObjectStore, JsValue> {
    let options = IdbObjectStoreParameters::new();
    options.set_key_path(&match key_path {
        [field] => JsValue::from_str(field),
        fields => path(fields),
    });
    database.create_object_store_with_optional_parameters(name, &options)
}

fn index(store: &IdbObjectStore, name: &str, fields: &[&str], unique: bool) -> Result<(), JsValue> {
    let options = IdbIndexParameters::new();
    options.set_unique(unique);
    store.create_index_with_str_sequence_and_optional_parameters(name, &path(fields), &options)?;
    Ok(())
}

fn path(fields: &[&str]) -> JsValue {
    let path = Array::new();
    for field in fields {
        path.push(&JsValue::from_str(field));
    }
    path.into()
}
