// What others do to a database while a page works on it: a newer page upgrades it, somebody deletes it, an old page stays in the
// way, the browser clears it. Everybody settles, the runtime says what happened, and what could not be saved stays pending.

import assert from 'node:assert/strict';
import { readFile, readdir, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, beforeEach, test } from 'node:test';

import { launch, newProfile } from '../support/chromium.mjs';
import { openPage, servePackage } from '../support/page.mjs';

let browser, server, page, other;
/** Each test has a database of its own. */
let number = 0, name;

before(async () => {
    browser = await launch();
    server = await servePackage();
    [page, other] = [await openPage(browser, server), await openPage(browser, server)];
    await page.evaluate(() => {
        /** A runtime and a session on the database, and what it tells. */
        window.start = async (name) => {
            const [model, look, events] = [kit.scripted(kit.calling(['c1', 'look']), kit.assistant('Done.')), kit.tool('look', () => 'seen'), []];
            const runtime = await rc.Runtime.open({ storage: { kind: 'indexeddb', name }, model, tools: [look] });
            runtime.subscribe((event) => event.type.startsWith('storage') && events.push({ ...event }));
            const session = await runtime.createSession({ id: 's', cwd: '/w' });
            session.bypass('all');
            await session.prompt('One');
            Object.assign(window, { runtime, session, events, model });
            window.counts = () => [model.calls, look.runs];
        };
        /** What is given up after ten seconds is given up a little earlier. */
        window.impatient = async (work) => {
            const wait = window.setTimeout;
            window.setTimeout = (after, time) => wait(after, time === 10_000 ? 200 : time);
            const found = await work();
            window.setTimeout = wait;
            return found;
        };
    });
    await other.evaluate(() => {
        /** Opens the database past the package, and says how that went. */
        window.opened = (name, version) => new Promise((resolve) => {
            const request = indexedDB.open(name, version);
            request.onsuccess = () => resolve({ database: request.result });
            request.onblocked = () => resolve({ how: 'blocked' });
            request.onerror = () => resolve({ how: request.error.name });
        });
        /** A transaction that keeps a whole database to itself until `release`. */
        window.hold = async (name) => {
            const { database } = await opened(name);
            const store = database.transaction([...database.objectStoreNames], 'readwrite').objectStore('chat_sessions');
            let goesOn = true;
            const ask = () => { store.get('').onsuccess = () => (goesOn ? ask() : database.close()); };
            ask();
            window.release = () => { goesOn = false; };
        };
        window.deleted = (name) => new Promise((resolve) => {
            const request = indexedDB.deleteDatabase(name);
            request.onsuccess = () => resolve('deleted');
            request.onblocked = () => resolve('blocked');
            request.onerror = () => resolve(request.error.name);
        });
    });
});
after(async () => {
    await browser?.close();
    await server?.close();
});
beforeEach(async () => {
    name = `connection-${number++}`;
});

const calm = async () => assert.deepEqual([...(await page.unhandled()), ...(await other.unhandled())], []);

test('a newer page upgrades the database: it is not kept waiting, and the old one says so and keeps what it cannot save', async () => {
    await page.run((name) => start(name), name);
    const upgraded = await other.run(async (name) => {
        const { database, how } = await opened(name, 1000);
        database?.close();
        return how ?? database.version;
    }, name);
    assert.equal(upgraded, 1000);
    const found = await page.run(async (name) => {
        const before = await kit.dump(name);
        const result = await session.prompt('Two');
        return {
            result, events, counts: counts(), state: session.state, flushed: await kit.outcome(() => session.flush()),
            listed: await kit.outcome(() => runtime.listSessions()), opened: await kit.outcome(() => rc.Runtime.open({ storage: { kind: 'indexeddb', name } })),
            same: kit.toText(before) === kit.toText(await kit.dump(name)),
        };
    }, name);
    assert.deepEqual(found.events, [{ type: 'storage-closed', reason: 'upgraded' }]);
    assert.deepEqual([found.result.outcome, found.result.saved, found.result.saveError.code], ['success', false, 'storage_schema_newer']);
    assert.deepEqual([found.state.hasPendingSave, found.state.messageCount], [true, 6]);
    for (const refused of [found.flushed, found.listed, found.opened]) {
        assert.deepEqual([refused.rejected.typed, refused.rejected.code], [true, 'storage_schema_newer']);
    }
    assert.deepEqual([found.counts, found.same], [[3, 1], true]);
    await calm();
});

test('another tab deletes the database: it is not kept waiting, the page says so, and opens a new one when it needs it', async () => {
    await page.run((name) => start(name), name);
    assert.equal(await other.run((name) => deleted(name), name), 'deleted');
    const found = await page.run(async () => {
        const result = await session.prompt('Two');
        const fresh = await runtime.createSession({ id: 'fresh' });
        return {
            events, result, pending: session.state.hasPendingSave, opened: await kit.outcome(() => runtime.openSession('fresh')),
            fresh: await fresh.prompt('Three'), listed: (await runtime.listSessions()).map(({ id }) => id),
        };
    });
    assert.deepEqual(found.events, [{ type: 'storage-closed', reason: 'deleted' }]);
    assert.deepEqual([found.result.outcome, found.result.saved, found.result.saveError.code], ['success', false, 'not_found']);
    assert.deepEqual([found.pending, found.fresh.saved, found.listed], [true, true, ['fresh']]);
    await calm();
});

test('an old page that does not listen keeps the database from being upgraded: opening says so, and works once it is gone', async () => {
    await other.run(async (names) => {
        const fixture = kit.fromText(await (await fetch('/fixtures/schema/version-1.json')).text());
        window.held = [];
        for (const name of names) {
            await kit.makeDatabase(name, fixture);
            window.held.push((await opened(name)).database);
        }
    }, [name, 'runcontext']);
    const open = async (storage) => {
        const runtime = await rc.Runtime.open({ storage });
        const listed = (await runtime.listSessions()).map(({ id }) => id);
        await runtime.close();
        return listed;
    };
    const named = { kind: 'indexeddb', name };
    // Nothing stands in for it where nobody named it, either; and a second attempt waits behind the first, not for ever.
    for (const storage of [named, undefined, named]) {
        const found = await page.run(`async (storage) => await impatient(() => kit.outcome(() => (${open})(storage)))`, storage);
        assert.deepEqual([found.rejected?.typed, found.rejected?.code], [true, 'storage_blocked']);
        assert.match(found.rejected.message, /another tab keeps the database `.*` busy; close it, then try again/);
    }
    await other.run(() => window.held.forEach((database) => database.close()));
    for (const storage of [named, undefined]) assert.deepEqual(await page.run(open, storage), ['s', 'empty']);
    await calm();
});

test('an open page whose database somebody keeps from being opened again says that it is blocked, and saves once it is not', async () => {
    await page.run((name) => start(name), name);
    // Deaf, and in the way of the deletion; and who opens a database that is being deleted waits behind that.
    await other.run(async (name) => void (window.held = (await opened(name)).database), name);
    assert.equal(await other.run((name) => deleted(name), name), 'blocked');
    const found = await page.run(async () => {
        const titled = await impatient(() => kit.outcome(() => session.setTitle('A title')));
        return { titled, events, pending: session.state.hasPendingSave };
    });
    assert.deepEqual([found.titled.rejected?.code, found.pending], ['storage_blocked', true]);
    assert.deepEqual(found.events, [{ type: 'storage-closed', reason: 'deleted' }, { type: 'storage-blocked' }]);
    await other.run(() => void window.held.close());
    const later = await page.run(async () => (await kit.outcome(async () => (await runtime.createSession({ id: 'fresh' })).id)));
    assert.deepEqual(later, { gave: 'fresh' });
    await calm();
});

test('a transaction of another tab that does not end holds up nobody for ever: nothing is applied later, and nothing is lost', async () => {
    await page.run((name) => start(name), name);
    await other.run((name) => hold(name), name);
    const found = await page.run(async () => {
        const refused = (work) => impatient(async () => (await kit.outcome(work)).rejected);
        const prompted = await impatient(() => session.prompt('Two'));
        const result = { prompted, pending: session.state.hasPendingSave, counts: counts() };
        result.refused = [await refused(() => session.flush()), await refused(() => runtime.listSessions()), await refused(() => runtime.openSession('t')),
            await refused(() => runtime.deleteSession('t')), await refused(() => runtime.createSession({ id: 't' }))];
        result.decided = await impatient(() => session.explain({ toolCallId: 'x', toolName: 'look', arguments: {} }));
        result.closed = await kit.outcome(() => runtime.close());
        return result;
    });
    assert.deepEqual([found.prompted.outcome, found.prompted.saved, found.pending], ['success', false, true]);
    for (const error of [found.prompted.saveError, ...found.refused]) {
        assert.deepEqual([error.code, error.data.unanswered], ['storage_failed', true]);
        assert.match(error.message, /^the database gave no answer within 10 seconds, another tab may keep it busy; nothing was changed; try again$/);
    }
    assert.deepEqual([found.decided.outcome, found.decided.reason, found.closed.rejected.code], ['require', 'policy_unverified', 'pending_save']);

    await other.run(() => release());
    const later = await page.run(async (name) => {
        // Behind everything that was asked for.
        const between = (await kit.dump(name)).messages.length;
        await session.flush();
        return { between, counts: counts(), after: (await kit.dump(name)).messages.map(([, { body }]) => body.role), pending: session.state.hasPendingSave };
    }, name);
    const turn = ['user', 'assistant', 'toolResult', 'assistant'];
    assert.deepEqual([later.between, later.after, later.pending], [4, [...turn, 'user', 'assistant'], false]);
    assert.deepEqual(later.counts, found.counts);
    await calm();
});

test('a turn that waits for a transaction of another tab is stopped at once', async () => {
    await page.run((name) => start(name), name);
    await other.run((name) => hold(name), name);
    const found = await page.run(async () => {
        const prompt = session.prompt('Two');
        await new Promise((resolve) => setTimeout(resolve, 1_200));
        const began = Date.now();
        await session.abort();
        const took = Date.now() - began;
        return { took, result: await prompt, running: session.state.isRunning };
    });
    assert.ok(found.took < 900, `it took ${found.took} ms`);
    assert.deepEqual([found.result.outcome, found.result.saved, found.running], ['cancelled', false, false]);
    await other.run(() => release());
    assert.deepEqual(await page.run(async (name) => {
        await session.flush();
        return (await kit.dump(name)).messages.map(([, { body }]) => body.role).slice(4);
    }, name), ['user']);
    await calm();
});

test('a runtime that was closed hears nothing more of its database', async () => {
    const found = await page.run(async (name) => {
        await start(name);
        await runtime.close();
        return name;
    }, name);
    assert.equal(await other.run((name) => deleted(name), found), 'deleted');
    assert.deepEqual(await page.run(() => events), []);
});

test('the browser is asked to keep everything only when somebody calls for it, and what it says is passed on', async () => {
    const elsewhere = await servePackage();
    const page = await openPage(browser, elsewhere);
    const devtools = await browser.context.browser().newBrowserCDPSession();
    const found = await page.run(async () => {
        let asked = 0;
        const persist = StorageManager.prototype.persist;
        StorageManager.prototype.persist = function () {
            asked++;
            return persist.call(this);
        };
        window.asked = () => asked;
        window.runtime = await rc.Runtime.open();
        await runtime.createSession({ id: 's' });
        return [asked, await runtime.requestPersistence(), await navigator.storage.persisted(), asked];
    });
    const [before, refused, persisted, times] = found;
    assert.deepEqual([before, refused.persisted, persisted, times], [0, false, false, 1]);
    assert.ok(Number.isInteger(refused.usage) && refused.usage > 0 && refused.quota > refused.usage, JSON.stringify(refused));

    await devtools.send('Browser.grantPermissions', { origin: elsewhere.url, permissions: ['durableStorage'] });
    const granted = await page.run(async () => [await runtime.requestPersistence(), await navigator.storage.persisted()]);
    assert.deepEqual([granted[0].persisted, granted[1]], [true, true]);

    const without = await page.run(async () => {
        Object.defineProperty(navigator, 'storage', { value: undefined, configurable: true });
        const found = [await runtime.requestPersistence()];
        const memory = await rc.Runtime.open({ storage: 'memory' });
        delete navigator.storage;
        found.push(await memory.requestPersistence(), asked());
        await runtime.close();
        return [...found, await kit.outcome(() => runtime.requestPersistence())];
    });
    assert.deepEqual(without.slice(0, 3), [{ persisted: false }, { persisted: false }, 2]);
    assert.equal(without[3].rejected.code, 'disposed');
    await page.close();
    await elsewhere.close();
});

test('where the browser finds its own files damaged and throws everything away, storageInfo says so once', async () => {
    const profile = await newProfile();
    const elsewhere = await servePackage();
    try {
        let own = await launch({ profile });
        const first = await openPage(own, elsewhere);
        assert.equal('dataLoss' in (await first.run(async () => {
            const runtime = await rc.Runtime.open();
            await runtime.createSession({ id: 's' });
            return runtime.storageInfo;
        })), false);
        await own.close();
        const folder = path.join(profile, 'Default', 'IndexedDB');
        const [name] = await readdir(folder);
        const log = path.join(folder, name, (await readdir(path.join(folder, name))).find((file) => file.endsWith('.log')));
        const bytes = await readFile(log);
        bytes[bytes.length >> 1] ^= 0xff;
        await writeFile(log, bytes);

        own = await launch({ profile });
        const page = await openPage(own, elsewhere);
        const found = await page.run(async () => {
            const infos = [];
            const runtime = await rc.Runtime.open();
            infos.push(runtime.storageInfo, await runtime.listSessions());
            await runtime.createSession({ id: 'fresh' });
            await runtime.close();
            infos.push((await rc.Runtime.open()).storageInfo);
            return infos;
        });
        await own.close();
        assert.match(found[0].dataLoss, /corrupt/);
        assert.deepEqual([found[0].kind, found[1], found[2]], ['indexeddb', [], { kind: 'indexeddb', persistent: true }]);
    } finally {
        await elsewhere.close();
        await rm(profile, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
    }
});

test('rules that were read before the database was deleted decide nothing in the one that is made anew', async () => {
    await page.run(async (name) => {
        const runtime = await rc.Runtime.open({ storage: { kind: 'indexeddb', name }, tools: [kit.tool('look', () => 'seen')] });
        await runtime.permissions.addRule({ tool_pattern: 'look', action: 'allow', priority: 1 });
        Object.assign(window, { runtime, session: await runtime.createSession({ id: 's', cwd: '/w' }), call: { toolCallId: 'c1', toolName: 'look', arguments: {} } });
        return (await session.gate(call)).outcome;
    }, name).then((outcome) => assert.equal(outcome, 'allow'));
    assert.equal(await other.run((name) => deleted(name), name), 'deleted');
    // Somebody else makes the same number of changes.
    await other.run(async (name) => {
        const anew = await rc.Runtime.open({ storage: { kind: 'indexeddb', name } });
        await anew.permissions.addRule({ tool_pattern: 'look', action: 'deny', priority: 1 });
        await anew.createSession({ id: 's', cwd: '/w' });
        await anew.close();
    }, name);
    const found = await page.run(async () => (await session.gate(call)).outcome);
    assert.equal(found, 'deny');
    await page.run(() => runtime.close());
    await calm();
});
