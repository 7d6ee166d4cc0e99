// Sessions in a database: writes that fail, records that make no sense, other runtimes on the same records. For browsers alone.

import { fails, ok, same } from './check.mjs';
import { calm, failWrites, rc } from './kit.mjs';
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

cases['a stored time that no calendar has is shown as the nearest, and a stored setting that makes no sense is said'] = async () => {
    const at = await world();
    await at.session.dispose();
    await at.edit('chat_sessions', 's', (record) => ({ ...record, createdAt: 1e300 }));
    const opened = await at.runtime.openSession('s');
    same(opened.header.createdAt, '+275760-09-13T00:00:00.000Z');
    await opened.dispose();
    await at.edit('chat_sessions', 's', (record) => ({ ...record, settings: { ...record.settings, permissionPreset: 'all' } }));
    const before = await at.stored();
    await fails(() => at.runtime.openSession('s'), 'storage_failed');
    same(await at.stored(), before);
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
    const error = await fails(() => other.openSession('s'), 'storage_failed');
    ok(/`s` is damaged.*deleteSession/.test(error.message), error.message);
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
