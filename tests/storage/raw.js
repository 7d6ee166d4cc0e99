// Reads and disturbs databases past the storage that is tested.

import { memoryStorage } from "../../pkg-template/storage/memory.js";

const settled = (request) =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });

/** Every record of every store as JSON; bodies and what was asked as JSON text, packs of outlines as `outlinesOf` them. */
export async function dump(name, outlinesOf) {
  const database = await settled(indexedDB.open(name));
  try {
    const stores = [...database.objectStoreNames];
    const transaction = database.transaction(stores, "readonly");
    // A connection is open for as long as a transaction is.
    const over = new Promise((resolve) => (transaction.oncomplete = resolve));
    const dump = {};
    for (const store of stores) {
      const source = transaction.objectStore(store);
      const [keys, records] = await Promise.all([settled(source.getAllKeys()), settled(source.getAll())]);
      dump[store] = records.map((record, n) => {
        if (store === "messages") record.body = JSON.stringify(record.body);
        if (store === "approvals") record.approval = JSON.stringify(record.approval);
        if (store === "message_outlines") record.outlines = outlinesOf(record.outlines);
        return [JSON.stringify(keys[n]), record];
      });
    }
    await over;
    return JSON.stringify(dump);
  } finally {
    database.close();
  }
}

/** The adapter in memory, which remembers the sessions it was asked for. */
export function watchedMemory() {
  const [adapter, ids] = [memoryStorage(), new Set()];
  return { ...adapter, ids, session: (id) => (ids.add(id), adapter.session(id)) };
}

/** Everything that a watched adapter stores, as far as it tells, in the form of the dump above. */
export async function dumpAdapter(adapter) {
  const text = (value) => new TextDecoder().decode(value);
  const dump = { messages: [], message_outlines: [], approvals: [], chat_sessions: [] };
  for (const id of [...adapter.ids].sort()) {
    const stored = await adapter.session(id).load();
    if (stored === undefined) continue;
    const { outlines, approvals, ...rest } = stored;
    const messages = await adapter.session(id).readMessages({ from: 0, to: stored.messageCount });
    const add = (store, values) => values.forEach((value, at) => dump[store].push([JSON.stringify([id, at]), value]));
    add("messages", messages.map(text));
    add("message_outlines", outlines.map(text));
    add("approvals", approvals.map(({ value, ...more }) => ({ ...more, value: text(value) })));
    dump.chat_sessions.push([JSON.stringify(id), JSON.parse(JSON.stringify(rest, (_, value) => (value instanceof Uint8Array ? text(value) : value)))]);
  }
  for (const store of ["skills", "scheduled_jobs", "projects", "project_tickets", "tool_permission_groups", "approval_rules"]) {
    dump[store] = (await adapter.shared.list(store)).map(([key, value]) => [JSON.stringify(key), text(value)]);
  }
  const entries = await adapter.directory.list({ kind: "session", limit: 500 });
  dump.directory = entries.map((entry) => [JSON.stringify(entry.id), { ...entry, value: text(entry.value) }]);
  return JSON.stringify(dump);
}

/** Opens a database as another program would, and closes it when it is asked to. Answers the version. */
export async function openAt(name, version) {
  const request = indexedDB.open(name, version);
  let blocked = false;
  request.onblocked = () => (blocked = true);
  const database = await settled(request);
  const answer = `${blocked ? "blocked, then " : ""}${database.version}`;
  database.close();
  return answer;
}

/** Deletes a database. Answers whether that had to wait for somebody. */
export async function remove(name) {
  const request = indexedDB.deleteDatabase(name);
  let blocked = false;
  request.onblocked = () => (blocked = true);
  await settled(request);
  return blocked ? "blocked" : "free";
}

/** Whether a database exists, without making it. */
export async function exists(name) {
  return (await indexedDB.databases()).some((database) => database.name === name);
}

/** A body with everything that JSON cannot hold. */
export function awkwardBody() {
  return Object.freeze({
    role: "user",
    content: "\ud83d alone, \udc00 alone, \u0000 nul, \u{1f980} whole, \uffff",
    ["\ud83d"]: "a name",
    numbers: [0.1, -0, 1e308, 5e-324, NaN, Infinity, 2 ** 53 + 2],
    bytes: new Uint8Array([0, 1, 127, 128, 255]),
    nothing: null,
    empty: [{}, [], ""],
  });
}

export function same(a, b) {
  if (Object.is(a, b)) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  if (Object.getPrototypeOf(a) !== Object.getPrototypeOf(b)) return false;
  const names = Reflect.ownKeys(a);
  return names.length === Reflect.ownKeys(b).length && names.every((name) => same(a[name], b[name]));
}

/** A body that structured clone refuses. */
export function unstorable() {
  return { role: "user", content: "text", callback() {} };
}

/** What the page's error handlers have seen since the last call. */
const errors = [];
globalThis.addEventListener("error", (event) => errors.push(event.message));
export function pageErrors() {
  return errors.splice(0).join("; ");
}

const undo = [];
const replace = (object, name, value) => {
  const before = Object.getOwnPropertyDescriptor(object, name);
  Object.defineProperty(object, name, { value, configurable: true, writable: true });
  undo.push(() => (before ? Object.defineProperty(object, name, before) : delete object[name]));
};

/** Ends every disturbance below. */
export function calm() {
  while (undo.length) undo.pop()();
}

/** `open()` throws. */
export function forbid(name, text) {
  replace(IDBFactory.prototype, "open", () => {
    throw new DOMException(text, name);
  });
}

/** There is no IndexedDB. */
export function hide() {
  replace(globalThis, "indexedDB", undefined);
}

/** The next `times` transactions meet a connection that somebody closed, and nobody was told. */
export function closing(times) {
  const before = IDBDatabase.prototype.transaction;
  replace(IDBDatabase.prototype, "transaction", function (...args) {
    if (times-- > 0) this.close();
    return before.apply(this, args);
  });
}

/** Does something to the next transaction that writes. */
function disturb(disturbance) {
  const before = IDBDatabase.prototype.transaction;
  let left = 1;
  replace(IDBDatabase.prototype, "transaction", function (stores, mode, options) {
    const transaction = before.call(this, stores, mode, options);
    if (mode === "readwrite" && left-- > 0) disturbance(transaction);
    return transaction;
  });
}

/** The next commit is applied, but the answer to it is lost. */
export function loseAnswer() {
  disturb((transaction) =>
    transaction.addEventListener("complete", (event) => {
      event.stopImmediatePropagation();
      transaction.dispatchEvent(new Event("abort"));
    }),
  );
}

/** The next commit is aborted by the browser once everything is put, as for want of space. */
export function fail(name) {
  disturb((transaction) => {
    const before = IDBObjectStore.prototype.put;
    replace(IDBObjectStore.prototype, "put", function (...args) {
      const request = before.apply(this, args);
      if (this.transaction === transaction && transaction.error === null)
        request.addEventListener("success", () => {
          Object.defineProperty(transaction, "error", { value: new DOMException("no more", name) });
          transaction.abort();
        });
      return request;
    });
  });
}

/** What transactions are asked for, as text. */
export function watch() {
  const seen = [];
  const before = IDBDatabase.prototype.transaction;
  replace(IDBDatabase.prototype, "transaction", function (stores, mode, options) {
    seen.push(`${mode} ${options?.durability}`);
    return before.call(this, stores, mode, options);
  });
  return seen;
}
