// Databases of earlier versions, as those left them (`tests/fixtures/schema`): today's code upgrades them and keeps everything;
// an upgrade that does not come to its end changes nothing.

import assert from 'node:assert/strict';
import { readFile, rm } from 'node:fs/promises';
import { after, before, test } from 'node:test';

import { fromText } from '../support/cases/kit.mjs';
import { outlinesOf } from '../support/cases/outlines.js';
import { launch, newProfile } from '../support/chromium.mjs';
import { openPage, servePackage } from '../support/page.mjs';

let profile, server, browser, page, current;

before(async () => {
    profile = await newProfile();
    server = await servePackage();
    browser = await launch({ profile });
    page = await openPage(browser, server);
    current = await page.run(async () => {
        await (await rc.Runtime.open()).close();
        return (await indexedDB.databases())[0].version;
    });
});
after(async () => {
    await browser?.close();
    await server?.close();
    if (profile) await rm(profile, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
});

const fileOf = (version) => new URL(`../fixtures/schema/version-${version}.json`, import.meta.url);
const fixture = async (version) => fromText(await readFile(fileOf(version), 'utf8'));

/** Makes the database of a fixture; runs in the page. */
const make = async (name, version) =>
    await kit.makeDatabase(name, kit.fromText(await (await fetch(`/fixtures/schema/version-${version}.json`)).text()));

/** What a dump of a fixture's database shows. */
const recordsOf = ({ stores }) =>
    Object.fromEntries(Object.entries(stores).map(([store, { records }]) => [
        store,
        records.map(([key, record]) => [key, store === 'message_outlines' ? { ...record, outlines: outlinesOf(record.outlines) } : record]),
    ]));

/** Stores with their keys and indexes, as a new database has them; runs in the page. */
async function shape(name) {
    const database = await new Promise((resolve, reject) => {
        const request = indexedDB.open(name);
        request.onsuccess = () => resolve(request.result);
        request.onerror = () => reject(request.error);
    });
    const found = {};
    const transaction = database.transaction([...database.objectStoreNames]);
    for (const store of database.objectStoreNames) {
        const { keyPath, indexNames } = transaction.objectStore(store);
        const indexes = [...indexNames].map((index) => [index, transaction.objectStore(store).index(index)]);
        found[store] = { keyPath, indexes: Object.fromEntries(indexes.map(([index, { keyPath, unique }]) => [index, { keyPath, unique }])) };
    }
    database.close();
    return [database.version, found];
}

test('there is a database of every version, and its schema is what the current one came from', async () => {
    assert.ok(current >= 3);
    for (let version = 1; version <= current; version++) {
        const found = await fixture(version).catch(() => assert.fail(`write tests/fixtures/schema/version-${version}.json, as that version leaves a database`));
        assert.equal(found.version, version);
    }
    // The newest one is a new database with something in it.
    const { stores } = await fixture(current);
    const now = await page.run(shape, 'runcontext');
    const named = Object.entries(stores).map(([store, { keyPath, indexes }]) => [store, { keyPath, indexes }]);
    assert.deepEqual(now, [current, Object.fromEntries(named)]);
});

/** What the package shows of the session of the fixtures; runs in the page. */
async function shown(name) {
    const model = kit.scripted(kit.assistant('On.'));
    const tools = [kit.tool('look', () => 'seen'), kit.tool('write', () => 'written', { access: 'write' })];
    const runtime = await rc.Runtime.open({ storage: { kind: 'indexeddb', name }, model, tools, now: () => 9000 });
    const stored = await kit.dump(name);
    const listed = (await runtime.listSessions()).map(({ id, title, unread }) => [id, title, unread]);
    const session = await runtime.openSession('s');
    const found = {
        stored, listed, messages: session.messages, header: session.header, interrupted: session.interrupted,
        snapshots: session.getRuntimeContexts(), skills: runtime.skills.list().map(({ name, status }) => [name, status]),
        rules: (await runtime.permissions.listRules()).filter(({ id }) => id > 0).map(({ id, action }) => [id, action]),
        approvals: (await runtime.approvals.list()).map(({ requestId, toolCallId }) => [requestId, toolCallId]),
        empty: (await runtime.openSession('empty')).messages,
    };
    if (session.interrupted) await session.abandon();
    found.next = await session.prompt('Go on');
    found.calls = model.calls;
    await runtime.close();
    return found;
}

/** Checks that everything of a fixture is there, in storage and in what the package shows. */
function complete(found, { version, stores }, made) {
    const records = recordsOf({ stores });
    for (const store of Object.keys(found.stored)) assert.deepEqual(found.stored[store], records[store] ?? [], `${store}, from version ${version}`);
    assert.deepEqual(Object.keys(found.stored).sort(), made);
    assert.deepEqual(found.listed, [['s', `From version ${version}`, 2], ['empty', { $: 'undefined' }, 0]]);
    assert.deepEqual(found.messages, records.messages.map(([, { body }]) => body));
    const { title, pinned, permissionPreset, systemPrompt, projectInstructions, runtimeContexts, systemPromptCheckpoints, compactions } = found.header;
    assert.deepEqual([title, pinned, permissionPreset, systemPrompt], [`From version ${version}`, true, 'workspace-write', 'You are a colleague.']);
    assert.deepEqual(projectInstructions, [{ path: 'AGENTS.md', content: 'Be brief.' }]);
    for (const [shown, store] of [[runtimeContexts, 'runtime_contexts'], [systemPromptCheckpoints, 'system_prompt_checkpoints'], [compactions, 'compactions']]) {
        assert.deepEqual(shown, records[store].map(([, { sessionId, position, ...record }]) => record));
    }
    assert.deepEqual(found.snapshots, runtimeContexts);
    assert.deepEqual([found.skills, found.rules, found.empty], [[['notes', 'active']], [[1, 'require'], [4, 'require']], []]);
    assert.deepEqual(found.approvals, version === 1 ? [] : [['r', 'c2']]);
    assert.deepEqual(found.interrupted, version === 1 ? { $: 'undefined' } : {
        unanswered: [{ toolCallId: 'c2', toolName: 'write', arguments: { at: 'x' } }], pendingApprovals: ['r'],
    });
    assert.deepEqual([found.next, found.calls], [{ outcome: 'success', saved: true }, 1]);
}

for (const version of [1, 2, 3]) {
    test(`a database of version ${version} is opened with everything kept, and its session goes on`, async () => {
        const name = `version-${version}`;
        await page.run(make, name, version);
        const made = Object.keys((await fixture(current)).stores).sort();
        complete(await page.run(shown, name), await fixture(version), made);
        assert.deepEqual(await page.run(shape, name), await page.run(shape, 'runcontext'));
        assert.deepEqual(await page.unhandled(), []);
    });
}

test('an upgrade that fails leaves the old version whole, and is done the next time', async () => {
    await page.run(make, 'fails', 1);
    const failed = await page.run(async (name) => {
        const create = IDBDatabase.prototype.createObjectStore;
        IDBDatabase.prototype.createObjectStore = function (...args) {
            create.apply(this, args);
            throw new DOMException('no room', 'QuotaExceededError');
        };
        const found = await kit.outcome(() => rc.Runtime.open({ storage: { kind: 'indexeddb', name } }));
        IDBDatabase.prototype.createObjectStore = create;
        return [found.rejected, await kit.dump(name), (await indexedDB.databases()).find((database) => database.name === name).version];
    }, 'fails');
    assert.deepEqual([failed[0].typed, failed[0].code, failed[2]], [true, 'storage_quota', 1]);
    const old = await fixture(1);
    assert.deepEqual(failed[1], recordsOf(old));
    complete(await page.run(shown, 'fails'), old, Object.keys((await fixture(current)).stores).sort());
});

for (const [when, mayEnd] of [['in the middle of it', false], ['about when it ends', true]]) {
    test(`an upgrade that is killed ${when} leaves everything: the old version whole, or the new one`, async () => {
        const name = `killed ${when}`;
        await page.run(make, name, 1);
        const there = new Promise((resolve) => page.once('console', resolve));
        await page.evaluate(([name, forEver]) => {
            const create = IDBDatabase.prototype.createObjectStore;
            IDBDatabase.prototype.createObjectStore = function (...args) {
                const made = create.apply(this, args);
                // As long as something is asked of it, an upgrade goes on.
                const again = () => (made.count().onsuccess = again);
                if (forEver) again();
                console.log('now');
                return made;
            };
            void rc.Runtime.open({ storage: { kind: 'indexeddb', name } });
        }, [name, !mayEnd]);
        await there;
        await browser.kill();
        browser = await launch({ profile });
        page = await openPage(browser, server);
        // `databases()` still says the new version while Chromium takes an upgrade back; opening waits for that.
        const dump = await page.run((name) => kit.dump(name), name);
        const [version] = await page.run(shape, name);
        assert.ok(version === 1 || (mayEnd && version === current), `version ${version}`);
        const old = await fixture(1);
        assert.deepEqual(dump, { ...recordsOf(old), ...(version === 1 ? {} : { approvals: [] }) });
        complete(await page.run(shown, name), old, Object.keys((await fixture(current)).stores).sort());
    });
}
