// What IndexedDB costs in Chromium through the package, beside bare calls for the same records in the same run. Ratios alone:
// absolute times say more of the machine. What is compared is done in turns, and medians are compared. `cargo xtask bench storage`.

import { launch } from '../tests/support/chromium.mjs';
import { openPage, servePackage } from '../tests/support/page.mjs';

const browser = await launch();
const server = await servePackage();
const page = await openPage(browser, server);

/** Makes the sessions `short` and `long`, a thousand small ones, and copies of their records for the bare calls. Runs in the page. */
async function prepare() {
    const settled = (request) => new Promise((resolve, reject) => {
        request.onsuccess = () => resolve(request.result);
        request.onerror = () => reject(request.error);
    });
    const ended = (transaction) => new Promise((resolve, reject) => {
        transaction.oncomplete = resolve;
        transaction.onabort = () => reject(transaction.error);
    });
    const connect = (name) => settled(indexedDB.open(name));
    const open = (name) => rc.Runtime.open({ storage: { kind: 'indexeddb', name }, strict: false });
    const text = kit.noise(300);

    /** A session of so many messages: calls with their results, as an agent has them. */
    const fill = async (runtime, id, count) => {
        const session = await runtime.createSession({ id, cwd: '/w' });
        const turn = await session.begin('Go');
        await turn.request();
        await turn.dispatched();
        for (let at = 1; at < count - 1; at += 100) {
            const calls = Array.from({ length: Math.min(99, count - 2 - at) }, (_, call) => [`c${at + call}`, 'look']);
            await turn.append(kit.calling(...calls));
            await turn.append(...calls.map(([id, name]) => kit.resultOf(id, name, text)));
        }
        await turn.append(kit.assistant('Done.'));
        await turn.finish();
        await session.dispose();
    };
    const runtime = await open('bench');
    await fill(runtime, 'short', 100);
    await fill(runtime, 'long', 20_000);
    const list = await open('list');
    for (let at = 0; at < 1000; at++) await (await list.createSession({ cwd: '/w' })).dispose();
    await list.close();

    // Where a long conversation was compacted, the last page of it is read.
    const database = await connect('bench');
    const compacting = database.transaction(['chat_sessions', 'compactions'], 'readwrite');
    compacting.objectStore('compactions').put({
        sessionId: 'long', position: 0, id: 'k', firstKeptMessageIndex: 19_900, historyMessageCount: 19_900, summary: text,
        timestamp: 1, provider: 'p', model: 'm',
    });
    const record = await settled(compacting.objectStore('chat_sessions').get('long'));
    // As storage counts them: snapshots, checkpoints, compactions.
    record.settings.counts[2] = 1;
    compacting.objectStore('chat_sessions').put(record);
    await ended(compacting);

    // The bare calls write into a database of the same records.
    const names = [...database.objectStoreNames];
    const source = database.transaction(names);
    const shapes = names.map((name) => {
        const { keyPath, indexNames } = source.objectStore(name);
        return [name, keyPath, [...indexNames].map((index) => [index, source.objectStore(name).index(index)])];
    });
    const copying = await new Promise((resolve, reject) => {
        const request = indexedDB.open('bare', 1);
        request.onupgradeneeded = () => {
            for (const [name, keyPath, indexes] of shapes) {
                const made = request.result.createObjectStore(name, { keyPath });
                for (const [index, { keyPath, unique }] of indexes) made.createIndex(index, keyPath, { unique });
            }
        };
        request.onsuccess = () => resolve(request.result);
        request.onerror = () => reject(request.error);
    });
    for (const name of names) {
        const from = database.transaction(name).objectStore(name);
        const [keys, records] = await Promise.all([settled(from.getAllKeys()), settled(from.getAll())]);
        const to = copying.transaction(name, 'readwrite');
        records.forEach((record, at) => to.objectStore(name).put(record, from.keyPath === null ? keys[at] : undefined));
        await ended(to);
    }
    const used = ['chat_sessions', 'messages', 'message_outlines', 'commits'];
    const session = (id) => IDBKeyRange.bound([id], [id, []]);

    Object.assign(window, {
        /** A turn of a host's own loop: the time of its three commits, without the time in which its request is made. */
        async turn(id) {
            const session = await runtime.openSession(id);
            const turn = await session.begin('Again');
            await turn.request();
            const began = performance.now();
            await turn.dispatched();
            await turn.append(kit.assistant(text));
            await turn.finish();
            return performance.now() - began;
        },
        /** The records of the last three commits of `long`, put past the package. */
        async bare() {
            const found = await last();
            const began = performance.now();
            for (const records of found) {
                const transaction = copying.transaction(used, 'readwrite', { durability: 'strict' });
                for (const [name, record] of records) transaction.objectStore(name).put(record);
                transaction.commit();
                await ended(transaction);
            }
            return performance.now() - began;
        },
        async openLong() {
            await (await runtime.openSession('long')).dispose();
            const began = performance.now();
            const opened = await runtime.openSession('long');
            const time = performance.now() - began;
            if (opened.state.loadedFrom !== 19_900) throw new Error(`loaded from ${opened.state.loadedFrom}`);
            return time;
        },
        async bareMessages() {
            const began = performance.now();
            const found = await settled(copying.transaction('messages').objectStore('messages').getAll(session('long')));
            if (found.length < 20_000) throw new Error(`${found.length} messages`);
            return performance.now() - began;
        },
        async list() {
            const began = performance.now();
            const first = await lists.listSessions({ limit: 500 });
            const second = await lists.listSessions({ limit: 500, before: first.at(-1).cursor });
            if (first.length + second.length !== 1000) throw new Error('not all are listed');
            return performance.now() - began;
        },
        async bareIndex() {
            const began = performance.now();
            const found = await settled(listed.transaction('chat_sessions').objectStore('chat_sessions').index('by_updated').getAll());
            if (found.length !== 1000) throw new Error(`${found.length} sessions`);
            return performance.now() - began;
        },
        lists: await open('list'),
        listed: await connect('list'),
    });
    /** What the last turn of `long` wrote, commit by commit. */
    const last = async () => {
        const transaction = database.transaction(used);
        const get = (name, key) => settled(transaction.objectStore(name).get(key));
        const header = await get('chat_sessions', 'long');
        const operations = await Promise.all([3, 2, 1].map((back) => get('commits', ['long', (header.commitCount - back) % 1024])));
        const messages = await Promise.all([2, 1].map((back) => get('messages', ['long', header.messageCount - back])));
        const pack = await get('message_outlines', ['long', Math.floor((header.messageCount - 1) / 128)]);
        return operations.map((operation, at) => [
            ['chat_sessions', header], ['commits', operation],
            ...(at < 2 ? [['message_outlines', pack], ['messages', messages[at]]] : []),
        ]);
    };
}

/** Medians of things that are done in turns, a few times unmeasured. */
async function medians(times, ...work) {
    return await page.run(`async (times, names) => {
        const found = names.map(() => []);
        for (let round = -3; round < times; round++) {
            for (const [at, [name, ...args]] of names.entries()) {
                const time = await window[name](...args);
                if (round >= 0) found[at].push(time);
            }
        }
        return found.map((all) => all.sort((a, b) => a - b)[all.length >> 1]);
    }`, times, work);
}

const say = (what, ours, theirs, goal) => console.log(`Chromium, ${what}: ${(ours / theirs).toFixed(2)} (at most ${goal}; ${ours.toFixed(1)} ms to ${theirs.toFixed(1)} ms)`);

await page.run(prepare);
const [long, short, bare] = await medians(200, ['turn', 'long'], ['turn', 'short'], ['bare']);
say('the commits of a turn, 20,000 messages against 100', long, short, 1.2);
say('the commits of a turn, 20,000 messages against bare puts of the same records', long, bare, 1.3);
const [opened, messages] = await medians(20, ['openLong'], ['bareMessages']);
say('opening 20,000 messages, against reading them bare', opened, messages, 0.1);
const [listed, indexed] = await medians(40, ['list'], ['bareIndex']);
say('a list of 1,000 sessions, against a bare read of the index', listed, indexed, 1.5);

await browser.close();
await server.close();
