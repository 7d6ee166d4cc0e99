// Sessions in a database: writes that fail, records that make no sense, other runtimes on the same records. For browsers alone.

import { fails, ok, same } from './check.mjs';
import { calm, failWrites, rc, scripted } from './kit.mjs';
import { world } from './world.mjs';

const SUCCESS = Object.freeze({ outcome: 'success', saved: true });

export const cases = {};

cases['a session that its host forgot while its save is pending is found again, with what is pending'] = async () => {
    const at = await world();
    failWrites('quota');
    const forgotten = await at.runtime.openSession('s');
    same((await forgotten.prompt('Hi')).saved, false);
    // What the collector would do with both handles.
    forgotten.free();
    at.session.free();
    const again = await at.runtime.openSession('s');
    same([again.state.hasPendingSave, again.state.messageCount], [true, 2]);
    await fails(() => at.runtime.close(), 'pending_save');
    calm();
    await again.flush();
    same(again.state.hasPendingSave, false);
    again.free();
    const last = await at.runtime.openSession('s');
    same([last.state.hasPendingSave, last.state.messageCount], [false, 2]);
    await at.close();
};

cases['a session with a pending save can be deleted, and what is pending goes with it'] = async () => {
    const at = await world();
    const before = JSON.parse(await at.stored());
    failWrites('quota');
    same((await at.session.prompt('Hi')).saved, false);
    await fails(() => at.session.dispose(), 'pending_save');
    calm();
    await at.runtime.deleteSession('s');
    await fails(() => at.session.flush(), 'disposed');
    const after = JSON.parse(await at.stored());
    same(after, { ...before, chat_sessions: [], commits: [] });
    await at.close();
};

cases['a stored time that no calendar has is shown as the nearest'] = async () => {
    const at = await world();
    await at.session.dispose();
    await at.edit('chat_sessions', 's', (record) => ({ ...record, createdAt: 1e300 }));
    const opened = await at.runtime.openSession('s');
    same(opened.header.createdAt, '+275760-09-13T00:00:00.000Z');
    await at.close();
};

cases['a turn and a title of a session that was deleted are not saved in another of the same id'] = async () => {
    const at = await world({ session: { id: 'main' } });
    await at.session.prompt('One');
    const other = await at.another();
    await other.deleteSession('main');
    const second = await other.createSession({ id: 'main' });
    const turn = await second.begin('Other');
    await turn.request();
    await turn.dispatched();
    await turn.append({ role: 'assistant', content: 'Done.' });
    await turn.finish();
    const before = await at.stored();
    const result = await at.session.prompt('Two');
    same([result.outcome, result.saved, result.saveError.code], ['error', false, 'conflict']);
    same(await at.stored(), before);
    const third = await (await at.another()).openSession('main');
    await other.deleteSession('main');
    await other.createSession({ id: 'main' });
    await fails(() => third.setTitle('Mine'), 'conflict');
    same((await other.openSession('main')).state.title, undefined);
    await other.close();
    await at.runtime.deleteSession('main');
    await at.close();
};

cases['a session whose record cannot be read is listed as damaged among the others, and can be deleted'] = async () => {
    const at = await world();
    await at.session.dispose();
    await (await at.runtime.createSession({ id: 'good', cwd: '/w' })).dispose();
    await at.edit('chat_sessions', 's', (record) => ({ ...record, messageCount: 'many' }));
    const other = await at.another();
    for (const filter of [undefined, { cwd: '/w' }]) {
        const found = await other.listSessions(filter);
        same(found.map(({ id, cwd, damaged }) => [id, cwd, damaged]).sort(), [['good', '/w', undefined], ['s', '/w', true]]);
    }
    same((await other.openSession('s')).state.damage.map(({ store }) => store), ['chat_sessions']);
    await other.deleteSession('s');
    same((await other.listSessions()).map(({ id }) => id), ['good']);
    await fails(() => other.deleteSession('s'), 'not_found');
    await other.close();
    await at.close();
};

cases['a stored skill that cannot be read is listed as invalid, stops nothing, and can be removed'] = async () => {
    const at = await world();
    await at.edit('skills', at.skill.id, () => 5);
    const other = await at.another();
    const [found] = other.skills.list();
    same([found.id, found.status, found.diagnostics[0].severity], [at.skill.id, 'invalid', 'error']);
    await fails(() => at.runtime.skills.remove('nope'), 'not_found');
    await other.skills.remove(at.skill.id);
    same(other.skills.list(), []);
    await other.close();
    await at.close();
};

cases['a database of another application is named as such, with the option that chooses another'] = async () => {
    for (const [version, code] of [[1, 'storage_failed'], [99, 'storage_schema_newer']]) {
        const name = `foreign-${crypto.randomUUID()}`;
        const foreign = await new Promise((resolve, reject) => {
            const request = indexedDB.open(name, version);
            request.onsuccess = () => resolve(request.result);
            request.onerror = () => reject(request.error);
        });
        foreign.close();
        const error = await fails(() => rc.Runtime.open({ storage: { kind: 'indexeddb', name } }), code);
        ok(/another application.*`storage.name`/.test(error.message), error.message);
        indexedDB.deleteDatabase(name);
    }
};

cases['a session that could not be created is not there, and its id is free'] = async () => {
    const at = await world({ session: false });
    failWrites('quota');
    await fails(() => at.runtime.createSession({ id: 'late' }), 'storage_quota');
    calm();
    await fails(() => at.runtime.openSession('late'), 'not_found');
    same((await at.runtime.listSessions()).length, 0);
    const late = await at.runtime.createSession({ id: 'late' });
    same(await late.prompt('Hi'), SUCCESS);
    await at.close();
};

cases['a skill that could not be kept is not there either'] = async () => {
    const at = await world();
    failWrites('quota');
    await fails(() => at.runtime.skills.add({ content: '---\nname: x\ndescription: y\n---\nz', location: '/x' }), 'storage_quota');
    await fails(() => at.runtime.skills.remove(at.skill.id), 'storage_quota');
    calm();
    same(at.runtime.skills.list().map((skill) => skill.name), ['demo']);
    const other = await at.another();
    same(other.skills.list().map((skill) => skill.name), ['demo']);
    await other.close();
    await at.close();
};

// ---- damaged sessions ----------------------------------------------------------------------------------------------------

/** Takes a record away. */
const REMOVED = () => undefined;
const MISSING = { role: 'missing' };

/** What is done to the stored session of three turns, what is reported, and what is shown in the place of what. */
const DAMAGE = {
    'a message that is not there': {
        edits: [['messages', ['s', 2], REMOVED]], reported: [['messages', 2]], shown: (all) => all.with(2, MISSING),
    },
    'the last message that is not there': {
        edits: [['messages', ['s', 5], REMOVED]], reported: [['messages', 5]], shown: (all) => all.with(5, MISSING),
    },
    'a message that another role says than its outline': {
        edits: [['messages', ['s', 1], (record) => ({ ...record, body: { ...record.body, role: 'user' } })]],
        reported: [['messages', 1]], shown: (all) => all.with(1, { ...all[1], role: 'user' }),
    },
    'an approval that cannot be read, though it says that it was approved': {
        edits: [['approvals', ['s', 'a'], () => ({ sessionId: 's', requestId: 'a', version: 1, approval: { status: 'approved', toolCallId: 'c' } })]],
        reported: [['approvals']],
    },
    'a message without a body': {
        edits: [['messages', ['s', 0], ({ sessionId, index }) => ({ sessionId, index })]], reported: [['messages', 0]], shown: (all) => all.with(0, MISSING),
    },
    'a body that is no message': {
        edits: [['messages', ['s', 1], (record) => ({ ...record, body: 7 })]], reported: [['messages', 1]], shown: (all) => all.with(1, MISSING),
    },
    'another application\'s record among the messages': {
        edits: [['messages', ['s', 1.5], () => ({ sessionId: 's', index: 1.5, body: { role: 'user', content: 'x' } })]],
        reported: [['messages', 1]], shown: (all) => all.with(1, MISSING),
    },
    'a count that is too large': {
        edits: [['chat_sessions', 's', (record) => ({ ...record, messageCount: 8 })]],
        reported: [['messages', 6], ['messages', 7], ['message_outlines']], shown: (all) => [...all, MISSING, MISSING],
    },
    'a count beyond all': {
        edits: [['chat_sessions', 's', (record) => ({ ...record, messageCount: 2 ** 32 - 1 })]],
        reported: undefined, shown: (all, { length }) => [...all, ...Array(length - 6).fill(MISSING)],
    },
    'a count that is too small': {
        edits: [['chat_sessions', 's', (record) => ({ ...record, messageCount: 1 })]], reported: [['message_outlines']],
    },
    'a count that is no number': {
        edits: [['chat_sessions', 's', (record) => ({ ...record, messageCount: 'six' })]], reported: [['chat_sessions'], ['message_outlines']],
    },
    'counters that are none': {
        edits: [['chat_sessions', 's', (record) => ({ ...record, counters: { conversation: 'x' } })]], reported: [['chat_sessions']],
    },
    'a setting that JSON cannot hold': {
        edits: [['chat_sessions', 's', (record) => ({ ...record, settings: { ...record.settings, title: 5n } })]], reported: [['chat_sessions']],
    },
    'settings that make no sense': {
        edits: [['chat_sessions', 's', (record) => ({ ...record, settings: { ...record.settings, permissionPreset: 'all', title: 5 } })]],
        reported: [['chat_sessions'], ['chat_sessions']],
    },
    'outlines that are not there': { edits: [['message_outlines', ['s', 0], REMOVED]], reported: [['message_outlines']] },
    'outlines that are no list': {
        edits: [['message_outlines', ['s', 0], (record) => ({ ...record, outlines: '{' })]], reported: [['message_outlines', 0], ['message_outlines']],
    },
    'outlines of another length': {
        edits: [['message_outlines', ['s', 0], (record) => ({ ...record, outlines: record.outlines.slice(5) })]], reported: [['message_outlines']],
    },
    'outlines of which the last is cut off': {
        edits: [['message_outlines', ['s', 0], (record) => ({ ...record, outlines: record.outlines.slice(0, -1) })]],
        reported: [['message_outlines', 0], ['message_outlines']],
    },
    'outlines of a kind that is none': {
        edits: [['message_outlines', ['s', 0], (record) => ({ ...record, outlines: record.outlines.with(0, 48) })]],
        reported: [['message_outlines', 0], ['message_outlines']],
    },
    'outlines with a number that has no end': {
        edits: [['message_outlines', ['s', 0], (record) => ({ ...record, outlines: new Uint8Array(20).fill(255) })]],
        reported: [['message_outlines', 0], ['message_outlines']],
    },
    'outlines with a text that is none': {
        edits: [['message_outlines', ['s', 0], (record) => ({ ...record, outlines: Uint8Array.of(1, 0, 0, 1, 0, 1, 255, 0) })]],
        reported: [['message_outlines', 0], ['message_outlines']],
    },
    'another application\'s record among the outlines': {
        edits: [['message_outlines', ['s', 'theirs'], () => ({ sessionId: 's', pack: 'theirs' })]], reported: [['message_outlines']],
    },
    'a snapshot that cannot be read': {
        edits: [['runtime_contexts', ['s', 0], (record) => ({ ...record, userTurn: 'x' })]], reported: [['runtime_contexts', 0]], snapshots: 1,
    },
    'a snapshot that is not there': { edits: [['runtime_contexts', ['s', 0], REMOVED]], reported: [['runtime_contexts', 1]], snapshots: 1 },
    'a checkpoint that cannot be read': {
        edits: [['system_prompt_checkpoints', ['s', 0], (record) => ({ ...record, sections: 5 })]], reported: [['system_prompt_checkpoints', 0]],
    },
    'checkpoints that were all taken away': {
        edits: [['system_prompt_checkpoints', ['s', 0], REMOVED]], reported: [['system_prompt_checkpoints']],
    },
    'a compaction that nobody made': {
        edits: [['compactions', ['s', 0], () => ({
            sessionId: 's', position: 0, id: 'k', firstKeptMessageIndex: 2, historyMessageCount: 6, summary: 'x', timestamp: 1, provider: 'p', model: 'm',
        })]],
        reported: [['compactions']],
    },
    'a compaction that cannot be read': {
        edits: [['compactions', ['s', 0], () => ({ sessionId: 's', position: 0, id: 5 })]], reported: [['compactions', 0]],
    },
};

for (const [what, { edits, reported, shown = (all) => all, snapshots = 2 }] of Object.entries(DAMAGE)) {
    cases[`a damaged session is opened and says where: ${what}; the rest is there, and nothing is decided, sent or saved by it`] = async () => {
        const at = await world();
        for (const text of ['One $demo', 'Two', 'Three $demo']) same(await at.session.prompt(text), SUCCESS);
        const [all, kept] = [at.session.messages, at.session.getRuntimeContexts()];
        await at.session.dispose();
        const whole = await at.runtime.createSession({ id: 'whole', cwd: '/w' });
        for (const [store, key, change] of edits) await at.edit(store, key, change);
        const before = await at.stored();

        const model = scripted({ role: 'assistant', content: 'Done.' });
        const other = await at.another({ model });
        const session = await other.openSession('s');
        const { damage, messageCount, loadedFrom } = session.state;
        if (reported) same(damage.map(({ store, key }) => (key === undefined ? [store] : [store, key])), reported);
        ok(damage.length > 0 && damage.every(({ message }) => message.length > 0), 'each says what is wrong');
        same(session.messages, shown(all, { length: messageCount }));
        same([messageCount, loadedFrom], [session.messages.length, 0]);
        same((await session.readMessages({ limit: 2 })).length, 2);
        same(session.getRuntimeContexts(), kept.slice(2 - snapshots));

        for (const refused of [
            () => session.prompt('Go on'), () => session.begin('Go on'), () => session.setPermissionPreset(null), () => session.configure({ systemPrompt: 'x' }),
            () => session.setTitle('x'), () => session.setPinned(true), () => session.markRead(1), () => session.setRunContext(null),
            () => session.gate({ toolCallId: 'c', toolName: 'look', arguments: {} }), () => session.explain({ toolCallId: 'c', toolName: 'look', arguments: {} }),
        ]) {
            const error = await fails(refused, 'storage_failed');
            ok(/session `s` is damaged.*`state.damage`.*deleteSession/.test(error.message), error.message);
        }
        same([model.calls, await at.stored()], [0, before]);

        // Others are as they were, and it is not the one to go on with.
        same((await other.listSessions()).map(({ id }) => id).sort(), ['s', 'whole']);
        same((await other.continueRecent()).id, 'whole');
        same(await (await other.openSession('whole')).prompt('Hi'), SUCCESS);
        await session.dispose();
        await other.deleteSession('s');
        same((await other.listSessions()).map(({ id }) => id), ['whole']);
        same(whole.state.damage, []);
        await other.close();
        await at.close();
    };
}

cases['messages whose session is not there keep its id from being used until they are deleted'] = async () => {
    const at = await world();
    await at.session.prompt('Hi');
    await at.session.dispose();
    await at.edit('chat_sessions', 's', () => undefined);
    const { message } = await fails(() => at.runtime.createSession({ id: 's' }), 'storage_failed');
    ok(/delete it with `deleteSession`/.test(message), message);
    await at.runtime.deleteSession('s');
    same((await (await at.runtime.createSession({ id: 's' })).prompt('Again')).saved, true);
    await at.close();
};
