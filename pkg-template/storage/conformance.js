// @ts-check
// What every adapter has to do, sentence by sentence of `adapter.d.ts`, as cases for any test runner on any host.

/** @typedef {import('./adapter.js').StorageAdapter} StorageAdapter */
/** @typedef {import('./adapter.js').SessionStorage} SessionStorage */
/** @typedef {import('./adapter.js').EncodedCommit} EncodedCommit */
/** @typedef {import('./adapter.js').RecordStore} RecordStore */
/** @typedef {import('./adapter.js').DirectoryEntry} DirectoryEntry */
/** @typedef {{ adapter: StorageAdapter, again(): Promise<StorageAdapter> }} Opened what a case gets: an empty adapter, and more connections to it */

/**
 * @param {import('./conformance.js').Place} place
 * @returns {import('./conformance.js').Case[]}
 */
export function conformance({ open, reopen }) {
    const cases = reopen === undefined ? CASES : { ...CASES, ...AFTER_REOPENING };
    return Object.entries(cases).map(([name, run]) => ({
        name,
        async run() {
            const [given, timed] = [await open(), timing()];
            await run({ adapter: timed(given), again: async () => timed(reopen === undefined ? given : await reopen(given)) });
        },
    }));
}

/** So long a call may take, in milliseconds. */
const PATIENCE = 30_000;

/** Makes an adapter one whose calls reject when they are not answered in time; of the same one always the same. */
function timing() {
    const known = new Map();
    const part = (/** @type {any} */ target, /** @type {string[]} */ names) =>
        Object.fromEntries(names.map((name) => [name, (/** @type {any[]} */ ...given) => inTime(name, target[name](...given))]));
    return (/** @type {StorageAdapter} */ adapter) => {
        const timed = known.get(adapter) ?? {
            kind: adapter.kind,
            persistent: adapter.persistent,
            session: (/** @type {string} */ id) => part(adapter.session(id), ['counters', 'load', 'readMessages', 'commit', 'delete']),
            shared: part(adapter.shared, ['policyVersion', 'get', 'list', 'write']),
            directory: part(adapter.directory, ['put', 'remove', 'list']),
        };
        known.set(adapter, timed);
        return /** @type {StorageAdapter} */ (timed);
    };
}

/**
 * @template T
 * @param {string} name
 * @param {Promise<T>} answer
 * @returns {Promise<T>}
 */
function inTime(name, answer) {
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    let timer;
    const late = new Promise((_, reject) => {
        timer = setTimeout(() => reject(new Error(`${name}() gave no answer within ${PATIENCE / 1000} seconds`)), PATIENCE);
    });
    return /** @type {Promise<T>} */ (Promise.race([answer, late])).finally(() => clearTimeout(timer));
}

const MINUTE = 60_000;
const NOW = 1_764_576_000_123;

/** @type {Record<string, (opened: Opened) => Promise<void>>} */
const CASES = {
    // ---- what it is ------------------------------------------------------------------------------------------------

    async 'an adapter says its kind, and whether it is persistent'({ adapter, again }) {
        same(typeof adapter.kind, 'string', 'the type of `kind`');
        same(adapter.kind === '', false, 'whether `kind` is empty');
        same(typeof adapter.persistent, 'boolean', 'the type of `persistent`');
        if (adapter.persistent && (await again()) === adapter) {
            throw new Error('an adapter that is persistent is tried by opening it again: give `reopen`, a new adapter each time');
        }
    },

    async 'what is not there is undefined, empty or nought'({ adapter }) {
        const session = adapter.session('s');
        same(await session.counters(), undefined, 'counters()');
        same(await session.load(), undefined, 'load()');
        same(await session.readMessages({ from: 0, to: 10 }), [], 'readMessages()');
        same(await adapter.shared.policyVersion(), 0, 'policyVersion()');
        same(await adapter.shared.get('skills', 'k'), undefined, 'get()');
        same(await adapter.shared.list('skills'), [], 'list() of skills');
        same(await adapter.directory.list({ kind: 'session', limit: 10 }), [], 'list() of sessions');
    },

    // ---- commits ---------------------------------------------------------------------------------------------------

    async 'the first commit makes the session with everything in it'({ adapter }) {
        const session = adapter.session('s');
        const first = {
            ...creation('first', { header: '{"id":"s"}', settings: { preset: '"read-only"', dialect: '"loop"' } }),
            expected: 0,
            messageCount: 2,
            records: [
                record('messages', 0, '"m0"'),
                record('messages', 1, '"m1"'),
                record('message_outlines', 0, '"o0"'),
                record('runtime_contexts', 0, '"r0"'),
                record('system_prompt_checkpoints', 0, '"p0"'),
                record('compactions', 0, '"c0"'),
            ],
            approvals: [{ id: 'a', expected: 0, value: bytes('"a"') }],
            settings: { preset: bytes('"workspace-write"') },
        };
        same(await session.commit(first), { status: 'applied', counters: { conversation: 1, settings: 1 } }, 'commit()');
        same(
            await session.load(),
            {
                header: bytes('{"id":"s"}'),
                origin: 'first',
                updatedAt: NOW,
                messageCount: 2,
                counters: { conversation: 1, settings: 1 },
                settings: { preset: bytes('"workspace-write"'), dialect: bytes('"loop"') },
                outlines: [bytes('"o0"')],
                snapshots: [bytes('"r0"')],
                checkpoints: [bytes('"p0"')],
                compactions: [bytes('"c0"')],
                approvals: [{ id: 'a', version: 1, value: bytes('"a"') }],
            },
            'load()',
        );
        standing(await session.counters(), { conversation: 1, settings: 1 }, 'first', 'counters()');
        same(await session.readMessages({ from: 0, to: 2 }), [bytes('"m0"'), bytes('"m1"')], 'readMessages()');
    },

    async 'a session may be made with nothing in it'({ adapter }) {
        const session = await made(adapter, 's', { header: '{}', settings: {} });
        same(
            await session.load(),
            {
                header: bytes('{}'),
                origin: 'made s',
                updatedAt: NOW,
                messageCount: 0,
                counters: { conversation: 0, settings: 0 },
                settings: {},
                outlines: [],
                snapshots: [],
                checkpoints: [],
                compactions: [],
                approvals: [],
            },
            'load()',
        );
    },

    async 'a commit to a session that is not there is not found, and makes none'({ adapter }) {
        const session = adapter.session('s');
        await refused(session.commit(change('a', { origin: 'made s', expected: 0 })), 'not_found');
        await refused(session.commit(change('b', { origin: 'made s', settings: { title: bytes('1') } })), 'not_found');
        same(await session.counters(), undefined, 'counters()');
        await applied(session, creation('made s'));
        await applied(session, change('a', { expected: 0 }));
    },

    async 'a session is made once'({ adapter }) {
        const session = await made(adapter, 's', { header: '"first"', settings: { title: '"first"' } });
        const before = await everything(session);
        const second = creation('second', { header: '"second"', settings: { title: '"second"', more: '1' } });
        await conflict(session, second, { conversation: 0, settings: 0 });
        await conflict(session, { ...second, operationId: 'third', origin: 'made s', expected: 0 }, { conversation: 0, settings: 0 });
        same(await everything(session), before, 'the session afterwards');
    },

    async 'of many who make one session at the same time, one makes it'({ adapter, again }) {
        const places = [adapter.session('s'), (await again()).session('s')];
        const results = await Promise.all(
            twenty((at) => places[at % 2].commit(creation(`maker ${at}`, { header: `"header ${at}"` }))),
        );
        const winner = onlyOne(results, { conversation: 0, settings: 0 });
        const stored = await there(places[0]);
        same(stored.origin, `maker ${winner}`, 'the origin');
        same(stored.header, bytes(`"header ${winner}"`), 'the header');
    },

    async 'of many commits on one counter at the same time, one is applied'({ adapter, again }) {
        const session = await made(adapter, 's');
        const places = [session, (await again()).session('s')];
        for (const [round, before] of [0, 1, 2].entries()) {
            const results = await Promise.all(
                twenty((at) => {
                    const records = [record('messages', before, `"of ${at}"`), record('compactions', before, `"of ${at}"`)];
                    return places[at % 2].commit(change(`${round} ${at}`, { expected: before, messageCount: before + 1, records }));
                }),
            );
            const winner = onlyOne(results, { conversation: before + 1, settings: 0 });
            same(await session.readMessages({ from: before, to: before + 1 }), [bytes(`"of ${winner}"`)], 'the message that is stored');
            same((await there(session)).compactions[before], bytes(`"of ${winner}"`), 'the compaction that is stored');
        }
    },

    async 'of many replays of one commit at the same time, one is applied'({ adapter, again }) {
        const session = await made(adapter, 's');
        const places = [session, (await again()).session('s')];
        const commit = change('once', { expected: 0, messageCount: 1, records: [record('messages', 0, '1')] });
        const results = await Promise.all(twenty((at) => places[at % 2].commit(commit)));
        const counters = { conversation: 1, settings: 0 };
        same(results.filter(({ status }) => status === 'applied'), [{ status: 'applied', counters }], 'those that were applied');
        same(
            results.filter(({ status }) => status !== 'applied'),
            Array(19).fill({ status: 'already-applied', counters }),
            'the other ones',
        );
    },

    async 'a commit of settings meets a turn at the same time, and neither conflicts'({ adapter, again }) {
        const session = await made(adapter, 's');
        const other = (await again()).session('s');
        const settings = beside(() =>
            Promise.all(twenty((at) => applied(other, change(`setting ${at}`, { settings: { [`field ${at}`]: bytes(`${at}`) } })))),
        );
        for (let at = 0; at < 20; at++) {
            await applied(session, change(`turn ${at}`, { expected: at, messageCount: at + 1, records: [record('messages', at, `${at}`)] }));
        }
        await settings;
        const stored = await there(session);
        same(stored.counters, { conversation: 20, settings: 20 }, 'the counters');
        same(Object.keys(stored.settings).length, 20, 'how many settings there are');
        same((await session.readMessages({ from: 0, to: 30 })).length, 20, 'how many messages there are');
    },

    async 'a commit on another counter is a conflict that changes nothing'({ adapter }) {
        const session = await made(adapter, 's');
        await applied(session, change('one', { expected: 0, messageCount: 1, records: [record('messages', 0, '0')] }));
        const before = await everything(session);
        for (const expected of [0, 2, 1e15]) {
            await conflict(
                session,
                change('late', {
                    expected,
                    timestamp: NOW + MINUTE,
                    messageCount: 2,
                    records: [record('messages', 1, '1'), record('message_outlines', 0, '1'), record('compactions', 0, '1')],
                    approvals: [{ id: 'a', expected: 0, value: bytes('1') }],
                    settings: { title: bytes('1') },
                }),
                { conversation: 1, settings: 0 },
            );
            same(await everything(session), before, 'the session afterwards');
        }
        // It was not applied, so that it may come again.
        await applied(session, change('late', { expected: 1 }));
    },

    async 'each counter rises by what is in the commit'({ adapter }) {
        const session = await made(adapter, 's');
        /** @type {[Partial<EncodedCommit>, number, number][]} */
        const steps = [
            [{ settings: { a: bytes('1') } }, 0, 1],
            [{ settings: { a: bytes('2'), b: bytes('2') } }, 0, 2],
            [{ expected: 0 }, 1, 2],
            [{ expected: 1, settings: { a: bytes('3') } }, 2, 3],
            [{ approvals: [{ id: 'a', expected: 0, value: bytes('1') }] }, 2, 3],
            [{}, 2, 3],
        ];
        for (const [at, [parts, conversation, settings]] of steps.entries()) {
            const result = await session.commit(change(`step ${at}`, parts));
            same(result, { status: 'applied', counters: { conversation, settings } }, `commit ${at}`);
            standing(await session.counters(), { conversation, settings }, 'made s', `counters() after commit ${at}`);
        }
    },

    async 'the time and the number of messages are those of the last commit that says them'({ adapter }) {
        const session = await made(adapter, 's');
        await applied(session, change('a', { expected: 0, messageCount: 3, timestamp: NOW + MINUTE }));
        await applied(session, change('b', { settings: { a: bytes('1') }, timestamp: NOW + 2 * MINUTE }));
        const later = await there(session);
        same([later.messageCount, later.updatedAt], [3, NOW + 2 * MINUTE], 'messageCount and updatedAt');
        // Clocks are set back, and reach far; what is being imported has a time before the epoch.
        for (const [at, timestamp] of [1, 8_640_000_000_000_000, -NOW].entries()) {
            await applied(session, change(`clock ${at}`, { timestamp }));
            same((await there(session)).updatedAt, timestamp, 'updatedAt');
        }
    },

    async 'the last write of a setting wins, and the other settings stay'({ adapter }) {
        const session = await made(adapter, 's', { settings: { kept: '"kept"', title: '"made"' } });
        await applied(session, change('a', { settings: { title: bytes('"a"'), read: bytes('1') } }));
        await applied(session, change('b', { settings: { title: bytes('null') } }));
        same(
            (await there(session)).settings,
            { kept: bytes('"kept"'), title: bytes('null'), read: bytes('1') },
            'the settings',
        );
    },

    async 'a commit with a position that is taken is refused and leaves nothing'({ adapter }) {
        const session = await made(adapter, 's');
        const all = /** @type {RecordStore[]} */ (['messages', 'runtime_contexts', 'system_prompt_checkpoints', 'compactions']);
        await applied(session, change('one', { expected: 0, messageCount: 1, records: all.map((store) => record(store, 0, '"first"')) }));
        const before = await everything(session);
        const rest = {
            expected: 1,
            timestamp: NOW + MINUTE,
            messageCount: 3,
            approvals: [{ id: 'a', expected: 0, value: bytes('1') }],
            settings: { title: bytes('1') },
        };
        const free = [record('messages', 1, '1'), record('message_outlines', 0, '"changed"')];
        for (const store of all) {
            await refused(session.commit(change('bad', { ...rest, records: [...free, record(store, 0, '"second"')] })));
            same(await everything(session), before, `the session after a commit with a position of \`${store}\` that is taken`);
        }
        await refused(session.commit(change('bad', { ...rest, records: [...free, record('messages', 1, '2')] })));
        same(await everything(session), before, 'the session after a commit with one position twice');
        // It was not applied: with a free position it is.
        await applied(session, change('bad', { ...rest, records: free }));
    },

    async 'a record of message_outlines replaces the one at its position'({ adapter }) {
        const session = await made(adapter, 's');
        await applied(session, change('a', { expected: 0, records: [record('message_outlines', 0, '[0]')] }));
        const records = [record('message_outlines', 0, '[0,1]'), record('message_outlines', 1, '[2]')];
        await applied(session, change('b', { expected: 1, records }));
        await applied(session, change('c', { expected: 2, records: [record('message_outlines', 1, '[]')] }));
        same((await there(session)).outlines, [bytes('[0,1]'), bytes('[]')], 'the outlines');
    },

    async 'records are given by their position as a number, in whatever order they came'({ adapter }) {
        const session = await made(adapter, 's');
        const positions = [100, 9, 0, 11, 10, 1, 2, 99];
        const of = (/** @type {RecordStore} */ store) => positions.map((position) => record(store, position, `${position}`));
        const records = STORES.flatMap(of);
        await applied(session, change('a', { expected: 0, records: records.slice(20) }));
        await applied(session, change('b', { expected: 1, records: records.slice(0, 20) }));
        const sorted = [0, 1, 2, 9, 10, 11, 99, 100].map((position) => bytes(`${position}`));
        const { outlines, snapshots, checkpoints, compactions } = await there(session);
        same({ outlines, snapshots, checkpoints, compactions }, {
            outlines: sorted,
            snapshots: sorted,
            checkpoints: sorted,
            compactions: sorted,
        }, 'the records');
        same(await session.readMessages({ from: 0, to: 101 }), sorted, 'the messages');
    },

    // ---- operation ids ---------------------------------------------------------------------------------------------

    async 'a commit that is sent again is answered by its id, whatever is in it'({ adapter }) {
        const session = await made(adapter, 's');
        await applied(session, change('a', { expected: 0, messageCount: 1, records: [record('messages', 0, '0')] }));
        await applied(session, change('b', { settings: { title: bytes('"b"') } }));
        const before = await everything(session);
        const replays = [
            change('a', { expected: 0, messageCount: 1, records: [record('messages', 0, '0')] }),
            change('a', { expected: 1, messageCount: 2, records: [record('messages', 1, '1')] }),
            change('a', { expected: 7 }),
            change('a', { origin: 'another' }),
            change('a', { approvals: [{ id: 'a', expected: 4, value: bytes('1') }] }),
            change('b', { settings: { title: bytes('"other"') }, timestamp: NOW + MINUTE }),
            creation('made s'),
            creation('a', { header: '"other"' }),
        ];
        for (const replay of replays) {
            same(
                await session.commit(replay),
                { status: 'already-applied', counters: { conversation: 1, settings: 1 } },
                `commit() of \`${replay.operationId}\` again`,
            );
            same(await everything(session), before, 'the session afterwards');
        }
    },

    async 'commits are known again in any order'({ adapter }) {
        const session = await made(adapter, 's');
        for (let at = 0; at < 12; at++) await applied(session, change(`op ${at}`, { expected: at }));
        for (const step of [5, 7, 11]) {
            for (let at = 0; at < 12; at++) {
                const again = (at * step) % 12;
                const result = await session.commit(change(`op ${again}`, { expected: again }));
                same(result, { status: 'already-applied', counters: { conversation: 12, settings: 0 } }, `commit ${again} again`);
            }
        }
    },

    async 'a commit that arrives late, behind what was made of it and after it, changes nothing'({ adapter, again }) {
        const session = await made(adapter, 's');
        const late = (await again()).session('s');
        const first = change('first', {
            expected: 0, messageCount: 1, records: [record('messages', 0, '"first"'), record('message_outlines', 0, '"first"')],
            approvals: [{ id: 'a', value: bytes('"first"') }], settings: { title: bytes('"first"') },
        });
        const second = change('second', {
            expected: 1, messageCount: 2, records: [record('messages', 1, '"second"'), record('message_outlines', 0, '"second"')],
            approvals: [{ id: 'a', value: null }], settings: { title: bytes('"second"') },
        });
        await applied(session, first);
        await applied(session, second);
        const before = await everything(session);
        for (const commit of [first, { ...first, expected: 2 }, second]) {
            same(await late.commit(commit), { status: 'already-applied', counters: { conversation: 2, settings: 2 } }, 'commit()');
        }
        same(await everything(session), before, 'the session afterwards');
    },

    async 'the last 1,024 operations of a session are remembered'({ adapter }) {
        const session = await made(adapter, 's');
        const other = await made(adapter, 'other');
        for (let at = 0; at < 1024; at++) await applied(session, change(`op ${at}`, { settings: { n: bytes(`${at}`) } }));
        for (const at of [0, 1, 511, 1022, 1023]) {
            const { status } = await session.commit(change(`op ${at}`, { expected: 9 }));
            same(status, 'already-applied', `the answer to operation ${at} again`);
        }
        await applied(other, change('op 0', { origin: 'made other' }));
    },

    // ---- origins and deletion --------------------------------------------------------------------------------------

    async 'deleting removes all of the session and nothing of another'({ adapter }) {
        const session = await filled(adapter, 's');
        const other = await filled(adapter, 's1');
        const before = await everything(other);
        await session.delete();
        same(await session.counters(), undefined, 'counters()');
        same(await session.load(), undefined, 'load()');
        same(await session.readMessages({ from: 0, to: 10 }), [], 'readMessages()');
        await refused(session.commit(change('late', { expected: 1 })), 'not_found');
        await session.delete();
        await adapter.session('never').delete();
        same(await everything(other), before, 'the other session');
    },

    async 'a session that is made while it is deleted is there whole, or not at all'({ adapter, again }) {
        const places = [adapter.session('s'), (await again()).session('s')];
        const rest = { messageCount: 1, expected: 0, records: [record('messages', 0, '"m"'), record('message_outlines', 0, '"o"')] };
        const make = { ...creation('made', { header: '"h"', settings: { title: '"t"' } }), ...rest };
        for (let round = 0; round < 10; round++) {
            await Promise.all(twenty((at) => (at === 19 - 2 * round ? applied(places[0], make) : places[at % 2].delete())));
            const isThere = (await places[0].counters()) !== undefined;
            if (!isThere) same(await places[0].readMessages({ from: 0, to: 10 }), [], 'the messages of a session that is not there');
            same((await places[0].commit(make)).status, isThere ? 'already-applied' : 'applied', 'the status of the commit that made it');
            const { header, origin, settings, outlines } = await there(places[0]);
            same(
                { header, origin, settings, outlines, messages: await places[0].readMessages({ from: 0, to: 10 }) },
                { header: bytes('"h"'), origin: 'made', settings: { title: bytes('"t"') }, outlines: [bytes('"o"')], messages: [bytes('"m"')] },
                'the session afterwards',
            );
            await places[1].delete();
        }
    },

    async 'a session that is made anew under an old id is another one'({ adapter }) {
        const session = await filled(adapter, 's');
        await session.delete();
        // Even the operations of the old one are forgotten.
        same(
            await session.commit(creation('made anew', { header: '"anew"' })),
            { status: 'applied', counters: { conversation: 0, settings: 0 } },
            'commit()',
        );
        await applied(session, change('filled', { origin: 'made anew' }));
        standing(await session.counters(), { conversation: 0, settings: 0 }, 'made anew', 'counters()');
        const stored = await there(session);
        same([stored.origin, stored.header, stored.settings], ['made anew', bytes('"anew"'), {}], 'origin, header and settings');
        const lists = [stored.outlines, stored.snapshots, stored.checkpoints, stored.compactions, stored.approvals];
        same(lists, [[], [], [], [], []], 'the records and approvals');
        same(await session.readMessages({ from: 0, to: 10 }), [], 'the messages');
        const before = await everything(session);
        for (const parts of [{ expected: 0 }, { settings: { title: bytes('1') } }, { approvals: [{ id: 'a', value: null }] }]) {
            await conflict(session, change('of the old one', { origin: 'made s', ...parts }), { conversation: 0, settings: 0 });
        }
        same(await everything(session), before, 'the session afterwards');
    },

    async 'sessions whose ids look alike do not see each other'({ adapter }) {
        const ids = ['s', 'S', 's_', 's-', 's1', '1', '01', 's'.repeat(128), `${'s'.repeat(127)}t`];
        for (const [at, id] of ids.entries()) {
            const session = await made(adapter, id, { header: `"${id}"` });
            const records = STORES.map((store) => record(store, 0, `"${store} of ${id}"`));
            const approvals = [{ id: 'a', expected: 0, value: bytes(`"${id}"`) }];
            const settings = { title: bytes(`"${id}"`) };
            const commit = change('same', { origin: `made ${id}`, expected: 0, messageCount: at + 1, records, approvals, settings });
            await applied(session, commit);
        }
        for (const [at, id] of ids.entries()) {
            const { header, messageCount, settings, outlines, approvals } = await there(adapter.session(id));
            same(
                { header, messageCount, settings, outlines, approvals },
                {
                    header: bytes(`"${id}"`),
                    messageCount: at + 1,
                    settings: { title: bytes(`"${id}"`) },
                    outlines: [bytes(`"message_outlines of ${id}"`)],
                    approvals: [{ id: 'a', version: 1, value: bytes(`"${id}"`) }],
                },
                `the session \`${id}\``,
            );
            same(await adapter.session(id).readMessages({ from: 0, to: 9 }), [bytes(`"messages of ${id}"`)], `messages of \`${id}\``);
        }
    },

    // ---- approvals -------------------------------------------------------------------------------------------------

    async 'the version of an approval rises with each change, from 1'({ adapter }) {
        const session = await made(adapter, 's');
        for (const [version, expected] of [0, 1, undefined, 3].entries()) {
            const approvals = [{ id: 'a', value: bytes(`"${version}"`), ...(expected === undefined ? {} : { expected }) }];
            await applied(session, change(`op ${version}`, { approvals }));
            const wanted = [{ id: 'a', version: version + 1, value: bytes(`"${version}"`) }];
            same((await there(session)).approvals, wanted, 'the approvals');
        }
    },

    async 'a commit on another version of an approval is a conflict that changes nothing'({ adapter }) {
        const session = await made(adapter, 's');
        await applied(session, change('one', { approvals: [{ id: 'a', expected: 0, value: bytes('1') }] }));
        await applied(session, change('two', { approvals: [{ id: 'a', expected: 1, value: bytes('2') }] }));
        const before = await everything(session);
        for (const [id, expected] of /** @type {[string, number][]} */ ([['a', 0], ['a', 1], ['a', 3], ['b', 1]])) {
            for (const value of [bytes('3'), null]) {
                const approvals = [{ id: 'new', expected: 0, value: bytes('1') }, { id, expected, value }];
                const rest = { expected: 0, messageCount: 1, records: [record('messages', 0, '0')], settings: { title: bytes('1') } };
                await conflict(session, change('three', { ...rest, approvals }), { conversation: 0, settings: 0 });
                same(await everything(session), before, 'the session afterwards');
            }
        }
        await applied(session, change('three', { approvals: [{ id: 'a', expected: 2, value: bytes('3') }] }));
    },

    async 'an approval that ended is gone, and may begin again'({ adapter }) {
        const session = await made(adapter, 's');
        const put = (/** @type {string} */ id, /** @type {number} */ expected) => ({ id, expected, value: bytes(`"${id}"`) });
        await applied(session, change('a', { approvals: [put('q', 0), put('r', 0)] }));
        await applied(session, change('b', { approvals: [{ id: 'r', expected: 1, value: null }] }));
        same((await there(session)).approvals, [{ id: 'q', version: 1, value: bytes('"q"') }], 'the approvals');
        await conflict(session, change('c', { approvals: [{ id: 'r', expected: 1, value: null }] }), { conversation: 0, settings: 0 });
        // Where no version is named, ending what is not there is no conflict.
        await applied(session, change('d', { approvals: [{ id: 'r', value: null }] }));
        await applied(session, change('e', { approvals: [put('r', 0), { id: 'q', expected: 1, value: null }, put('t', 0)] }));
        const ids = (await there(session)).approvals.map(({ id, version }) => `${id} ${version}`);
        same(ids.sort(), ['r 1', 't 1'], 'the approvals and their versions');
    },

    async 'of many answers to one approval at the same time, one is applied'({ adapter, again }) {
        const session = await made(adapter, 's');
        const places = [session, (await again()).session('s')];
        await applied(session, change('asked', { approvals: [{ id: 'a', expected: 0, value: bytes('"asked"') }] }));
        const results = await Promise.all(
            twenty((at) => places[at % 2].commit(change(`op ${at}`, { approvals: [{ id: 'a', expected: 1, value: bytes(`${at}`) }] }))),
        );
        const winner = onlyOne(results, { conversation: 0, settings: 0 });
        same((await there(session)).approvals, [{ id: 'a', version: 2, value: bytes(`${winner}`) }], 'the approvals');
    },

    // ---- reading ---------------------------------------------------------------------------------------------------

    async 'a page of messages is what is there of it, in order'({ adapter }) {
        const session = await made(adapter, 's');
        const positions = [0, 1, 2, 5, 6, 9, 10, 20];
        const records = positions.map((position) => record('messages', position, `${position}`));
        await applied(session, change('a', { expected: 0, messageCount: 21, records }));
        /** @type {[number, number][]} */
        const pages = [[0, 3], [1, 2], [2, 7], [3, 5], [0, 21], [9, 1000], [20, 21], [21, 30], [5, 5], [7, 2]];
        for (const [from, to] of pages) {
            const wanted = positions.filter((position) => from <= position && position < to).map((position) => bytes(`${position}`));
            same(await session.readMessages({ from, to }), wanted, `readMessages({ from: ${from}, to: ${to} })`);
        }
    },

    async 'what is loaded is of one moment, while others commit'({ adapter, again }) {
        const session = await made(adapter, 's');
        const reader = (await again()).session('s');
        const counters = { conversation: 0, settings: 0 };
        let writing = true;
        const writer = beside(async () => {
            for (let at = 0; at < 60; at++) {
                const records = STORES.map((store) => record(store, at, `${at}`));
                const approvals = [{ id: 'a', expected: at, value: bytes(`${at + 1}`) }];
                const settings = { n: bytes(`${at + 1}`) };
                await applied(session, change(`op ${at}`, { expected: at, messageCount: at + 1, records, approvals, settings, timestamp: at + 1 }));
            }
        }, () => (writing = false));
        while (writing) {
            const stored = await there(reader);
            const n = stored.counters.conversation;
            const rising = (/** @type {typeof counters} */ now) =>
                now.conversation >= counters.conversation && now.settings >= counters.settings;
            same(rising(stored.counters), true, 'whether the counters of load() have not fallen');
            Object.assign(counters, stored.counters);
            const { outlines, snapshots, checkpoints, compactions, approvals } = stored;
            if (n > 0) {
                same(
                    {
                        settings: stored.settings.n,
                        counters: stored.counters,
                        messageCount: stored.messageCount,
                        updatedAt: stored.updatedAt,
                        lists: [outlines, snapshots, checkpoints, compactions].map((list) => list.length),
                        approvals,
                    },
                    {
                        settings: bytes(`${n}`),
                        counters: { conversation: n, settings: n },
                        messageCount: n,
                        updatedAt: n,
                        lists: [n, n, n, n],
                        approvals: [{ id: 'a', version: n, value: bytes(`${n}`) }],
                    },
                    'one load()',
                );
            }
        }
        await writer;
    },

    // ---- values ----------------------------------------------------------------------------------------------------

    async 'values keep every byte'({ adapter }) {
        const awkward = [
            // JSON text as it may come: as it is written, not as some parser would write it.
            bytes('{"lone":"\\ud800","other":"\\udfff!","nul":"\\u0000","pair":"\\ud83d\\ude00","plain":"\u{1f600}"}'),
            bytes('{"floats":[0.1,1.0,-0,1e21,5e-324,1.7976931348623157e308,0.30000000000000004,12345678901234567890]}'),
            bytes(' {"b":1,\n\t"a":2,"b":3} '),
            bytes('"'.padEnd(1000, '%_*?\\\'";--`$') + '"'),
            // Whatever else: an adapter never looks.
            Uint8Array.from({ length: 256 }, (_, at) => at),
            Uint8Array.from({ length: 256 }, (_, at) => 255 - at),
            new Uint8Array(3),
            Uint8Array.of(0xef, 0xbb, 0xbf, 0xff, 0xfe, 0xc0, 0x80, 0xed, 0xa0, 0x80),
            new Uint8Array(0),
        ];
        const settings = Object.fromEntries(awkward.map((value, at) => [`setting ${at}`, value]));
        const create = { header: awkward[0], settings };
        const session = adapter.session('s');
        await applied(session, {
            ...creation('made s'),
            create,
            expected: 0,
            messageCount: awkward.length,
            records: STORES.flatMap((store) => awkward.map((value, position) => ({ store, position, value }))),
            approvals: awkward.map((value, at) => ({ id: `approval ${at}`, expected: 0, value })),
        });
        await applied(session, change('more', { settings: Object.fromEntries(awkward.map((value, at) => [`more ${at}`, value])) }));
        const stored = await there(session);
        same(stored.header, awkward[0], 'the header');
        for (const [at, value] of awkward.entries()) {
            same(stored.settings[`setting ${at}`], value, `first setting ${at}`);
            same(stored.settings[`more ${at}`], value, `setting ${at}`);
            same(stored.approvals.find(({ id }) => id === `approval ${at}`)?.value, value, `approval ${at}`);
        }
        const { outlines, snapshots, checkpoints, compactions } = stored;
        const messages = await session.readMessages({ from: 0, to: awkward.length });
        for (const list of [outlines, snapshots, checkpoints, compactions, messages]) same(list, awkward, 'the records of one store');

        await adapter.shared.write(awkward.map((value, at) => ({ store: 'skills', key: `k${at}`, value })));
        for (const [at, value] of awkward.entries()) {
            same(await adapter.shared.get('skills', `k${at}`), value, `shared value ${at}`);
            await adapter.directory.put(entry(`e${at}`, { updatedAt: at, value }));
        }
        same((await adapter.shared.list('skills')).map(([, value]) => value), awkward, 'the shared values');
        const entries = await adapter.directory.list({ kind: 'session', limit: 100 });
        same(entries.map(({ value }) => value).reverse(), awkward, 'the values of the directory');
    },

    async 'a message of 20 MB comes back as it was'({ adapter }) {
        const large = pattern(20_000_000);
        const session = await made(adapter, 's');
        const records = [record('messages', 0, '"before"'), { store: /** @type {const} */ ('messages'), position: 1, value: large }];
        await applied(session, change('a', { expected: 0, messageCount: 2, records }));
        await applied(session, change('b', { expected: 1, messageCount: 3, records: [record('messages', 2, '"after"')] }));
        same(await session.readMessages({ from: 0, to: 3 }), [bytes('"before"'), large, bytes('"after"')], 'the messages');
        same(await session.readMessages({ from: 2, to: 3 }), [bytes('"after"')], 'the message after it');
    },

    async 'large values come back whole wherever they are, and give way to smaller ones'({ adapter }) {
        const large = pattern(3 * 2 ** 20 + 1);
        const exact = pattern(2 ** 20);
        const session = adapter.session('s');
        await applied(session, {
            ...creation('made s'),
            create: { header: large, settings: { a: large, b: exact } },
            records: [{ store: 'message_outlines', position: 0, value: large }, { store: 'runtime_contexts', position: 0, value: exact }],
            approvals: [{ id: 'a', expected: 0, value: large }],
        });
        const stored = await there(session);
        same([stored.header, stored.settings, stored.outlines, stored.snapshots], [large, { a: large, b: exact }, [large], [exact]], 'the values');
        same(stored.approvals, [{ id: 'a', version: 1, value: large }], 'the approvals');
        await applied(session, change('smaller', {
            settings: { a: bytes('1') },
            records: [record('message_outlines', 0, '[]')],
            approvals: [{ id: 'a', expected: 1, value: bytes('2') }],
        }));
        const smaller = await there(session);
        same([smaller.settings.a, smaller.outlines], [bytes('1'), [bytes('[]')]], 'the smaller values');
        same(smaller.approvals, [{ id: 'a', version: 2, value: bytes('2') }], 'the approvals');

        await adapter.shared.write([{ store: 'skills', key: 'k', value: large }]);
        same(await adapter.shared.get('skills', 'k'), large, 'the shared value');
        await adapter.shared.write([{ store: 'skills', key: 'k', value: exact }]);
        same(await adapter.shared.list('skills'), [['k', exact]], 'the smaller shared value');
        await adapter.directory.put(entry('e', { value: large }));
        same((await adapter.directory.list({ kind: 'session', limit: 1 }))[0].value, large, 'the value in the directory');
        await adapter.directory.put(entry('e', { value: exact }));
        same((await adapter.directory.list({ kind: 'session', limit: 1 }))[0].value, exact, 'the smaller value in the directory');
    },

    async 'ten thousand messages go into one commit'({ adapter }) {
        const session = await made(adapter, 's');
        const value = (/** @type {number} */ position) => bytes(`{"n":${position}}`);
        const positions = Array.from({ length: 10_000 }, (_, position) => position);
        const records = positions.map((position) => ({ store: /** @type {const} */ ('messages'), position, value: value(position) }));
        await applied(session, change('a', { expected: 0, messageCount: 10_000, records }));
        same(await session.readMessages({ from: 0, to: 10_000 }), positions.map(value), 'the messages');
        same(await session.readMessages({ from: 9_990, to: 20_000 }), positions.slice(9_990).map(value), 'the last page');
    },

    async 'a value may be a part of a larger buffer'({ adapter }) {
        const whole = bytes('before"value"after');
        const part = whole.subarray(6, 13);
        const session = await made(adapter, 's');
        await applied(session, change('a', { expected: 0, records: [{ store: 'messages', position: 0, value: part }], settings: { a: part } }));
        await adapter.shared.write([{ store: 'skills', key: 'k', value: part }]);
        await adapter.directory.put(entry('e', { value: part }));
        same(await session.readMessages({ from: 0, to: 1 }), [bytes('"value"')], 'the message');
        same((await there(session)).settings.a, bytes('"value"'), 'the setting');
        same(await adapter.shared.get('skills', 'k'), bytes('"value"'), 'the shared value');
        same((await adapter.directory.list({ kind: 'session', limit: 1 }))[0].value, bytes('"value"'), 'the value in the directory');
    },

    async 'who changes a value that was stored, or that was read, changes nothing that is stored'({ adapter }) {
        const session = adapter.session('s');
        const values = Array.from({ length: 7 }, () => bytes('"value"'));
        const created = { ...creation('made s'), create: { header: values[0], settings: { a: values[1] } } };
        await applied(session, created);
        const settings = { b: values[2] };
        const records = [
            { store: /** @type {const} */ ('messages'), position: 0, value: values[3] },
            { store: /** @type {const} */ ('compactions'), position: 0, value: values[3] },
        ];
        const approvals = [{ id: 'a', expected: 0, value: values[4] }];
        await applied(session, change('a', { expected: 0, messageCount: 1, settings, records, approvals }));
        const changes = [{ store: /** @type {const} */ ('skills'), key: 'k', value: values[5] }];
        await adapter.shared.write(changes);
        const put = entry('e', { value: values[6] });
        await adapter.directory.put(put);
        for (const value of values) value.fill(0);
        Object.assign(put, { cwd: '/changed', updatedAt: 0 });
        records[0].position = 5;
        settings.b = bytes('0');

        const list = () => adapter.directory.list({ kind: 'session', limit: 1 });
        const look = async () => ({
            session: await everything(session),
            one: await adapter.shared.get('skills', 'k'),
            all: await adapter.shared.list('skills'),
            directory: await list(),
        });
        const value = bytes('"value"');
        const wanted = {
            session: {
                stored: {
                    header: value,
                    origin: 'made s',
                    updatedAt: NOW,
                    messageCount: 1,
                    counters: { conversation: 1, settings: 1 },
                    settings: { a: value, b: value },
                    outlines: [],
                    snapshots: [],
                    checkpoints: [],
                    compactions: [value],
                    approvals: [{ id: 'a', version: 1, value }],
                },
                messages: [value],
            },
            one: value,
            all: [['k', value]],
            directory: [entry('e', { value })],
        };
        const read = await look();
        same(read, wanted, 'what is stored after the caller changed what it had given');
        const stored = /** @type {import('./adapter.js').StoredSession} */ (read.session.stored);
        const given = [stored.header, ...Object.values(stored.settings), ...stored.compactions, stored.approvals[0].value, read.session.messages[0]];
        for (const bytes of [...given, read.one, read.all[0][1], read.directory[0].value]) bytes?.fill(0);
        Object.assign(stored.counters, { conversation: 9 });
        Object.assign(/** @type {object} */ (await session.counters()), { conversation: 9 });
        stored.approvals.pop();
        read.directory[0].cwd = '/changed';
        same(await look(), wanted, 'what is stored after the caller changed what it had read');
    },

    // ---- shared ----------------------------------------------------------------------------------------------------

    async 'shared values are put, replaced and removed, each store by itself'({ adapter }) {
        const { shared } = adapter;
        for (const store of SHARED) {
            await shared.write([{ store, key: 'k', value: bytes(`"${store}"`) }, { store, key: 'gone', value: bytes('1') }]);
        }
        for (const store of SHARED) await shared.write([{ store, key: 'gone', value: null }, { store, key: 'never', value: null }]);
        for (const store of SHARED) {
            same(await shared.get(store, 'k'), bytes(`"${store}"`), `get() of \`${store}\``);
            same(await shared.list(store), [['k', bytes(`"${store}"`)]], `list() of \`${store}\``);
        }
        await shared.write([{ store: 'projects', key: 'k', value: bytes('2') }]);
        same(await shared.get('projects', 'k'), bytes('2'), 'the value that was replaced');
    },

    async 'keys are any code units, listed in the order of their code units'({ adapter }) {
        const { shared } = adapter;
        const keys = [
            '', '\0', '\0\0', ' ', '"', '%', "'", '*', '-', '1', '10', '2', 'A', 'B', 'Z', '\\', '_', 'a', 'a\0b', 'aa', 'b', '\u00e4', 'a\u0308',
            '\u0130', '\u7fff', '\u8000', '\ud7ff', '\ud800', '\ud800\ud800', '\ud83d\ude00', '\udbff', '\udc00', '\udfff', '\ue000', '\uff5e', '\uffff',
            'k'.repeat(1000),
        ];
        const value = (/** @type {string} */ key) => bytes(JSON.stringify(key));
        for (const at of [0, 1]) {
            const half = keys.filter((_, index) => index % 2 === at).reverse();
            await shared.write(half.map((key) => ({ store: 'skills', key, value: value(key) })));
        }
        // JavaScript compares texts by their code units.
        const sorted = [...keys].sort((one, other) => (one < other ? -1 : 1));
        same(await shared.list('skills'), sorted.map((key) => [key, value(key)]), 'list()');
        for (const key of keys) same(await shared.get('skills', key), value(key), `get() of ${JSON.stringify(key)}`);
        await shared.write([{ store: 'skills', key: '\ud800', value: null }]);
        same(await shared.get('skills', '\ud800'), undefined, 'get() of the key that was removed');
        same((await shared.list('skills')).length, keys.length - 1, 'how many keys are left');
    },

    async 'a prefix is what a key begins with, and no pattern'({ adapter }) {
        const { shared } = adapter;
        const keys = [
            'a', 'a%', 'a%b', 'a*', 'a*b', 'a?', 'a\\', 'a\\b', 'a\\%', 'a_', 'a_b', 'aXb', 'ab', 'A', 'A%b', 'b', 'b\uffff', 'b\uffff\uffff', 'b\uffffa', 'c',
            '\ud83d\ude00', '\ud83d\ude01', '\ud83e\udd14', '\0', '\0a', '\uffff', '\uffff\uffff',
        ];
        await shared.write(keys.map((key) => ({ store: 'projects', key, value: bytes('1') })));
        await shared.write(keys.map((key) => ({ store: 'project_tickets', key: `${key}!`, value: bytes('1') })));
        const prefixes = ['', 'a', 'A', 'a%', 'a_', 'a*', 'a?', 'a\\', 'a\\%', 'ab', '%', '_', '*', 'b', 'b\uffff', 'c', 'd', '\ud83d', '\ud83d\ude00', '\0', '\uffff'];
        for (const prefix of prefixes) {
            const found = (await shared.list('projects', prefix)).map(([key]) => key);
            const wanted = keys.filter((key) => key.startsWith(prefix)).sort((one, other) => (one < other ? -1 : 1));
            same(found, wanted, `list() with the prefix ${JSON.stringify(prefix)}`);
        }
    },

    async 'a list of thousands of keys is whole'({ adapter }) {
        const { shared } = adapter;
        const keys = Array.from({ length: 3_000 }, (_, at) => `key ${String(at).padStart(4, '0')}`);
        await shared.write(keys.map((key) => ({ store: 'skills', key, value: bytes(`"${key}"`) })));
        same(await shared.list('skills'), keys.map((key) => [key, bytes(`"${key}"`)]), 'list()');
        same((await shared.list('skills', 'key 12')).length, 100, 'how many keys have a prefix');
    },

    async 'writes to groups and rules raise the policy version by one, and no others do'({ adapter }) {
        const { shared } = adapter;
        let version = 0;
        for (const store of SHARED) {
            version += store === 'tool_permission_groups' || store === 'approval_rules' ? 1 : 0;
            const result = await shared.write([{ store, key: 'k', value: bytes('1') }, { store, key: 'l', value: bytes('1') }]);
            same(result, { policyVersion: version }, `write() to \`${store}\``);
            same(await shared.policyVersion(), version, 'policyVersion()');
        }
        const over = [
            { store: /** @type {const} */ ('approval_rules'), key: 'k', value: null },
            { store: /** @type {const} */ ('tool_permission_groups'), key: 'k', value: bytes('2') },
            { store: /** @type {const} */ ('skills'), key: 'k', value: bytes('2') },
        ];
        same(await shared.write(over), { policyVersion: version + 1 }, 'write() to three stores');
        same(await shared.write([]), { policyVersion: version + 1 }, 'write() of nothing');
        same(await shared.policyVersion(), version + 1, 'policyVersion()');
    },

    async 'a write that expects another policy version changes nothing in any store'({ adapter }) {
        const { shared } = adapter;
        await shared.write([{ store: 'approval_rules', key: 'k', value: bytes('1') }, { store: 'skills', key: 'k', value: bytes('1') }]);
        const changes = SHARED.flatMap((store) => [
            { store, key: 'k', value: null },
            { store, key: 'new', value: bytes('2') },
        ]);
        for (const expected of [0, 2, 1e15]) {
            same(await shared.write(changes, expected), { conflict: 1 }, `write() that expects ${expected}`);
            for (const store of SHARED) {
                const there = store === 'approval_rules' || store === 'skills' ? [['k', bytes('1')]] : [];
                same(await shared.list(store), there, `list() of \`${store}\``);
            }
        }
        same(await shared.write([{ store: 'skills', key: 'k', value: bytes('2') }], 1), { policyVersion: 1 }, 'write() to skills that expects 1');
        same(await shared.write(changes, 1), { policyVersion: 2 }, 'write() that expects 1');
        for (const store of SHARED) same(await shared.list(store), [['new', bytes('2')]], `list() of \`${store}\``);
    },

    async 'of many writes that expect one policy version at the same time, one is applied'({ adapter, again }) {
        const places = [adapter.shared, (await again()).shared];
        const results = await Promise.all(
            twenty((at) => places[at % 2].write([{ store: 'approval_rules', key: `${at}`, value: bytes(`${at}`) }], 0)),
        );
        same(results.filter((result) => 'policyVersion' in result), [{ policyVersion: 1 }], 'those that were applied');
        same(results.filter((result) => 'conflict' in result), Array(19).fill({ conflict: 1 }), 'the other ones');
        const winner = `${results.findIndex((result) => 'policyVersion' in result)}`;
        same(await adapter.shared.list('approval_rules'), [[winner, bytes(winner)]], 'the rules');
    },

    async 'no write at the same time as another is lost'({ adapter, again }) {
        const places = [adapter.shared, (await again()).shared];
        const results = await Promise.all(
            twenty((at) => places[at % 2].write([{ store: 'tool_permission_groups', key: `${at}`, value: bytes(`${at}`) }])),
        );
        const versions = results.map((result) => ('policyVersion' in result ? result.policyVersion : -1));
        same(versions.sort((one, other) => one - other), twenty((at) => at + 1), 'the versions that the writes gave');
        same(await places[1].policyVersion(), 20, 'policyVersion()');
        same((await adapter.shared.list('tool_permission_groups')).length, 20, 'how many groups there are');
    },

    async 'a shared list is of one moment, while others write'({ adapter, again }) {
        const reader = (await again()).shared;
        let writing = true;
        const writer = beside(async () => {
            for (let at = 0; at < 40; at++) {
                await adapter.shared.write(['a', 'b', 'c'].map((key) => ({ store: 'skills', key, value: bytes(`${at}`) })));
            }
        }, () => (writing = false));
        while (writing) {
            const values = (await reader.list('skills')).map(([, value]) => value);
            same(values, values.length === 0 ? [] : [values[0], values[0], values[0]], 'the values of one list()');
        }
        await writer;
    },

    // ---- directory -------------------------------------------------------------------------------------------------

    async 'entries are listed by kind and working directory, newest first, then by id'({ adapter }) {
        const { directory } = adapter;
        const entries = [
            entry('b', { updatedAt: 5 }),
            entry('a', { updatedAt: 5, cwd: '/w/' }),
            entry('_', { updatedAt: 5 }),
            entry('-', { updatedAt: 5, cwd: '/W' }),
            entry('B', { updatedAt: 5 }),
            entry('10', { updatedAt: 5 }),
            entry('9', { updatedAt: 5 }),
            entry('x', { kind: 'approval', updatedAt: 5, sessionId: 'b' }),
            entry('y', { kind: 'approval', updatedAt: 50, sessionId: 'b' }),
            entry('c', { updatedAt: 40 }),
            entry('d', { updatedAt: 300 }),
            entry('e', { updatedAt: 8_640_000_000_000_000 }),
            entry('f', { updatedAt: 0 }),
        ];
        for (const one of entries) await directory.put(one);
        const list = (/** @type {'session' | 'approval'} */ kind, /** @type {string} */ ids) =>
            ids.split(' ').map((id) => entries.find((entry) => entry.kind === kind && entry.id === id));
        same(await directory.list({ kind: 'session', limit: 100 }), list('session', 'e d c b a _ B 9 10 - f'), 'the sessions');
        same(await directory.list({ kind: 'approval', limit: 100 }), list('approval', 'y x'), 'the approvals');
        same(await directory.list({ kind: 'session', cwd: '/w', limit: 100 }), list('session', 'e d c b _ B 9 10 f'), 'the sessions of `/w`');
        same(await directory.list({ kind: 'session', cwd: '/', limit: 100 }), [], 'the sessions of `/`');
        same(await directory.list({ kind: 'session', limit: 2 }), list('session', 'e d'), 'the first two');
        same(await directory.list({ kind: 'session', limit: 0 }), [], 'none of them');
        same(await directory.list({ kind: 'session', limit: 3, before: '40:c' }), list('session', 'b a _'), 'three after `40:c`');
        // The entry that a page ended with may be gone.
        same(await directory.list({ kind: 'session', limit: 3, before: '5:Z' }), list('session', 'B 9 10'), 'three after `5:Z`');
        same(await directory.list({ kind: 'session', limit: 3, before: '0:f' }), [], 'what is after the last');
    },

    async 'a working directory is any code units'({ adapter }) {
        const { directory } = adapter;
        const folders = ['', '/', '\0', '/\0', '/\0a', '\ud800', '\udfff', '/\ud800/x', '\ufffd', '/%', '/_', 'C:\\w', '/\u00e4', '/a\u0308', '/w ', '/w'];
        for (const [at, cwd] of folders.entries()) await directory.put(entry(`e${at}`, { cwd }));
        for (const [at, cwd] of folders.entries()) {
            same(await directory.list({ kind: 'session', cwd, limit: 9 }), [entry(`e${at}`, { cwd })], `list() of ${JSON.stringify(cwd)}`);
        }
    },

    async 'an entry takes the place of the one with its id, unless it is older'({ adapter }) {
        const { directory } = adapter;
        const list = () => directory.list({ kind: 'session', limit: 10 });
        await directory.put(entry('e', { updatedAt: 20, cwd: '/first', value: bytes('1') }));
        await directory.put(entry('e', { updatedAt: 19, cwd: '/older', value: bytes('2') }));
        same(await list(), [entry('e', { updatedAt: 20, cwd: '/first', value: bytes('1') })], 'the list after an older one');
        await directory.put(entry('e', { updatedAt: 20, cwd: '/same', value: bytes('3') }));
        same(await list(), [entry('e', { updatedAt: 20, cwd: '/same', value: bytes('3') })], 'the list after one of the same time');
        await directory.put(entry('e', { updatedAt: 100, cwd: '/newer', sessionId: 't', value: bytes('4') }));
        same(await list(), [entry('e', { updatedAt: 100, cwd: '/newer', sessionId: 't', value: bytes('4') })], 'the list after a newer one');
        same(await directory.list({ kind: 'session', cwd: '/first', limit: 10 }), [], 'the list of the folder that it was in');
        await directory.put(entry('e', { kind: 'approval', updatedAt: 101 }));
        same(await list(), [], 'the sessions after it became an approval');
        same((await directory.list({ kind: 'approval', limit: 10 })).length, 1, 'how many approvals there are');
    },

    async 'an entry that was removed is gone, and may come again'({ adapter }) {
        const { directory } = adapter;
        await directory.put(entry('e', { updatedAt: 20 }));
        await directory.put(entry('f', { updatedAt: 10 }));
        await directory.remove('e');
        await directory.remove('e');
        await directory.remove('never');
        same(await directory.list({ kind: 'session', limit: 10 }), [entry('f', { updatedAt: 10 })], 'the list');
        await directory.put(entry('e', { updatedAt: 1 }));
        const ids = (await directory.list({ kind: 'session', limit: 10 })).map(({ id }) => id);
        same(ids, ['f', 'e'], 'the list after it came again');
    },

    async 'pages over thousands of entries, many of one time, hold each entry once'({ adapter }) {
        const { directory } = adapter;
        const entries = Array.from({ length: 2_000 }, (_, at) => entry(`e${at}`, { updatedAt: NOW + Math.floor(at / 250), cwd: at % 2 ? '/w' : '/v' }));
        for (let at = 0; at < entries.length; at += 100) await Promise.all(entries.slice(at, at + 100).map((one) => directory.put(one)));
        const newer = (/** @type {DirectoryEntry} */ one, /** @type {DirectoryEntry} */ other) =>
            other.updatedAt - one.updatedAt || (one.id < other.id ? 1 : -1);
        for (const cwd of [undefined, '/w']) {
            const found = [];
            let before;
            for (;;) {
                const filter = { kind: /** @type {const} */ ('session'), limit: 170, ...(cwd && { cwd }), ...(before && { before }) };
                const page = await directory.list(filter);
                if (page.length === 0) break;
                found.push(...page);
                same(found.length <= entries.length, true, 'whether the pages come to an end');
                const last = page[page.length - 1];
                before = `${last.updatedAt}:${last.id}`;
            }
            const wanted = entries.filter((entry) => cwd === undefined || entry.cwd === cwd).sort(newer);
            same(found.map(({ id }) => id), wanted.map(({ id }) => id), 'the ids on all pages');
        }
    },
};

/** @type {typeof CASES} */
const AFTER_REOPENING = {
    async 'another connection sees all that was stored'({ adapter, again }) {
        const session = await filled(adapter, 's');
        await adapter.shared.write([{ store: 'approval_rules', key: '\ud800', value: bytes('1') }]);
        await adapter.directory.put(entry('e', { cwd: '\ud800' }));
        const other = await again();
        same([other.kind, other.persistent], [adapter.kind, adapter.persistent], 'kind and persistent');
        same(await everything(other.session('s')), await everything(session), 'the session');
        same(await other.shared.policyVersion(), 1, 'policyVersion()');
        same(await other.shared.list('approval_rules'), [['\ud800', bytes('1')]], 'the rules');
        same(await other.directory.list({ kind: 'session', limit: 9 }), [entry('e', { cwd: '\ud800' })], 'the directory');
    },

    async 'another connection knows what was committed, and the first one what it commits'({ adapter, again }) {
        const session = await filled(adapter, 's');
        const other = (await again()).session('s');
        const counters = { conversation: 1, settings: 1 };
        same(await other.commit(change('filled', {})), { status: 'already-applied', counters }, 'commit() again');
        await conflict(other, change('late', { expected: 0 }), counters);
        await applied(other, change('next', { expected: 1, messageCount: 3, records: [record('messages', 2, '2')] }));
        standing(await session.counters(), { conversation: 2, settings: 1 }, 'made s', 'counters() of the first');
        same(await session.readMessages({ from: 2, to: 3 }), [bytes('2')], 'readMessages() of the first');
        await conflict(session, change('late', { expected: 1 }), { conversation: 2, settings: 1 });
        await other.delete();
        same(await session.load(), undefined, 'load() of the first after the other deleted the session');
        await refused(session.commit(change('later', { expected: 2 })), 'not_found');
    },

    async 'a write of another connection is seen by the very next read'({ adapter, again }) {
        const other = await again();
        for (let at = 1; at <= 30; at++) {
            const [writer, reader] = at % 2 ? [adapter, other] : [other, adapter];
            await writer.shared.write([{ store: 'approval_rules', key: 'k', value: bytes(`${at}`) }]);
            same(await reader.shared.policyVersion(), at, 'policyVersion()');
            same(await reader.shared.get('approval_rules', 'k'), bytes(`${at}`), 'get()');
        }
    },
};

/** @type {RecordStore[]} */
const STORES = ['messages', 'message_outlines', 'runtime_contexts', 'system_prompt_checkpoints', 'compactions'];
/** @type {import('./adapter.js').SharedStore[]} */
const SHARED = ['skills', 'scheduled_jobs', 'projects', 'project_tickets', 'tool_permission_groups', 'approval_rules'];

// ---- making ----------------------------------------------------------------------------------------------------------

const bytes = (/** @type {string} */ text) => new TextEncoder().encode(text);

/** Bytes that are nowhere like those around them, so that a part that is missing or in the wrong place shows. */
const pattern = (/** @type {number} */ length) => {
    const made = new Uint8Array(length);
    let state = 1;
    for (let at = 0; at < length; at++) {
        state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
        made[at] = state >>> 24;
    }
    return made;
};

/**
 * @template T
 * @param {(at: number) => T} make
 */
const twenty = (make) => Array.from({ length: 20 }, (_, at) => make(at));

/**
 * Work that goes on beside a case. Where the case fails first nobody waits for it, and its own failure is nobody's.
 *
 * @param {() => Promise<unknown>} work
 * @param {() => void} [after]
 */
function beside(work, after = () => {}) {
    const done = work().finally(after);
    done.catch(() => {});
    return done;
}

/**
 * @param {RecordStore} store
 * @param {number} position
 * @param {string} text
 */
const record = (store, position, text) => ({ store, position, value: bytes(text) });

/**
 * A change of the session that `made` made as `s`.
 *
 * @param {string} operationId
 * @param {Partial<EncodedCommit>} parts
 * @returns {EncodedCommit}
 */
const change = (operationId, parts) => ({
    sessionId: 's',
    operationId,
    timestamp: NOW,
    origin: 'made s',
    records: [],
    approvals: [],
    settings: {},
    ...parts,
});

/**
 * @param {string} operationId
 * @param {{ header?: string, settings?: Record<string, string> }} [parts]
 */
const creation = (operationId, { header = '{}', settings = {} } = {}) =>
    change(operationId, {
        origin: operationId,
        create: {
            header: bytes(header),
            settings: Object.fromEntries(Object.entries(settings).map(([name, text]) => [name, bytes(text)])),
        },
    });

/**
 * A session with nothing in it.
 *
 * @param {StorageAdapter} adapter
 * @param {string} id
 * @param {Parameters<typeof creation>[1]} [parts]
 */
async function made(adapter, id, parts) {
    const session = adapter.session(id);
    await applied(session, { ...creation(`made ${id}`, parts), sessionId: id });
    return session;
}

/**
 * A session with something in each of its stores.
 *
 * @param {StorageAdapter} adapter
 * @param {string} id
 */
async function filled(adapter, id) {
    const session = await made(adapter, id, { settings: { title: `"${id}"` } });
    const records = STORES.flatMap((store) => [record(store, 0, `"${store} 0"`), record(store, 1, `"${store} 1"`)]);
    const approvals = [{ id: 'a', expected: 0, value: bytes('"a"') }];
    const rest = { sessionId: id, origin: `made ${id}`, settings: { read: bytes('1') } };
    await applied(session, change('filled', { ...rest, expected: 0, messageCount: 2, records, approvals }));
    return session;
}

/**
 * @param {string} id
 * @param {Partial<DirectoryEntry>} parts
 * @returns {DirectoryEntry}
 */
const entry = (id, parts) => ({ kind: 'session', id, sessionId: id, cwd: '/w', updatedAt: NOW, value: bytes(`"${id}"`), ...parts });

// ---- expecting -------------------------------------------------------------------------------------------------------

/** @param {SessionStorage} session */
async function there(session) {
    const stored = await session.load();
    if (stored === undefined) throw new Error('load(): expected the session, it is not there');
    return stored;
}

/**
 * What `counters()` has to say: it may leave the origin to `load()`.
 *
 * @param {Awaited<ReturnType<SessionStorage['counters']>>} found
 * @param {import('./adapter.js').Counters} counters
 * @param {string} origin
 * @param {string} what
 */
function standing(found, counters, origin, what) {
    same({ origin, ...found }, { ...counters, origin }, what);
}

/** @param {SessionStorage} session */
const everything = async (session) => ({
    stored: await session.load(),
    messages: await session.readMessages({ from: 0, to: 100 }),
});

/**
 * @param {SessionStorage} session
 * @param {EncodedCommit} commit
 */
async function applied(session, commit) {
    same((await session.commit(commit)).status, 'applied', `the status of commit \`${commit.operationId}\``);
}

/**
 * @param {SessionStorage} session
 * @param {EncodedCommit} commit
 * @param {import('./adapter.js').Counters} counters
 */
async function conflict(session, commit, counters) {
    same(await session.commit(commit), { status: 'conflict', counters }, `commit \`${commit.operationId}\``);
}

/**
 * @param {Promise<unknown>} promise
 * @param {string} [code]
 */
async function refused(promise, code) {
    let result;
    try {
        result = await promise;
    } catch (error) {
        if (code !== undefined) same(/** @type {{ code?: string }} */ (error).code, code, 'the code of the error');
        return;
    }
    throw new Error(`expected a rejection${code === undefined ? '' : ` with the code \`${code}\``}, got ${show(result)}`);
}

/**
 * Of twenty commits one was applied, with these counters, and every other one met them. Gives which one.
 *
 * @param {import('./adapter.js').CommitResult[]} results
 * @param {import('./adapter.js').Counters} counters
 */
function onlyOne(results, counters) {
    same(results.filter(({ status }) => status === 'applied'), [{ status: 'applied', counters }], 'those that were applied');
    same(results.filter(({ status }) => status !== 'applied'), Array(19).fill({ status: 'conflict', counters }), 'the other ones');
    return results.findIndex(({ status }) => status === 'applied');
}

/**
 * @param {unknown} found
 * @param {unknown} wanted
 * @param {string} what
 */
function same(found, wanted, what) {
    const first = difference(found, wanted, '');
    if (first !== undefined) throw new Error(`${what}${first.at}: expected ${show(first.wanted)}, got ${show(first.found)}`);
}

/**
 * Where plain data and bytes first differ. A member that is undefined is not there.
 *
 * @param {any} found
 * @param {any} wanted
 * @param {string} at
 * @returns {{ at: string, found: unknown, wanted: unknown } | undefined}
 */
function difference(found, wanted, at) {
    if (Object.is(found, wanted)) return undefined;
    const here = { at, found, wanted };
    const isObject = (/** @type {unknown} */ value) => typeof value === 'object' && value !== null;
    if (!isObject(found) || !isObject(wanted) || Array.isArray(found) !== Array.isArray(wanted)) return here;
    if (found instanceof Uint8Array || wanted instanceof Uint8Array) {
        if (!(found instanceof Uint8Array && wanted instanceof Uint8Array) || found.length !== wanted.length) return here;
        // Twenty million of them: a loop, and no function per byte.
        for (let byte = 0; byte < found.length; byte++) if (found[byte] !== wanted[byte]) return { ...here, at: `${at}, byte ${byte}` };
        return undefined;
    }
    for (const name of new Set([...Object.keys(wanted), ...Object.keys(found)])) {
        const inside = difference(/** @type {any} */ (found)[name], /** @type {any} */ (wanted)[name], `${at}.${name}`);
        if (inside !== undefined) return inside;
    }
    return undefined;
}

/** @param {unknown} value */
function show(value) {
    const text = JSON.stringify(value, (_, part) => {
        if (!(part instanceof Uint8Array)) return part;
        return part.length > 200 ? `${part.length} bytes` : `bytes ${new TextDecoder().decode(part)}`;
    });
    return text === undefined ? 'undefined' : text.length > 1000 ? `${text.slice(0, 1000)}... (${text.length} characters)` : text;
}
