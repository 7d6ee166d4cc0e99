// What a case runs in: a runtime in a storage of its own, and a look at what is stored.

import { dump, edit, handClock, rc, scripted, skillFile, toText } from './kit.mjs';

const persistent = typeof indexedDB !== 'undefined';

/**
 * A runtime on IndexedDB where there is one, else in memory, with a session `s` (unless told otherwise) and the skill
 * `demo`. In the session nobody is asked about a call, unless it `asks`.
 */
export async function world({ session = {}, asks = false, ...options } = {}) {
    const name = `case-${crypto.randomUUID()}`;
    const storage = persistent ? { kind: 'indexeddb', name } : 'memory';
    const now = options.now ?? handClock(1000);
    const runtime = await rc.Runtime.open({ storage, model: scripted({ role: 'assistant', content: 'Done.' }), ...options, now });
    const skill = await runtime.skills.add({ content: skillFile('demo', 'Do.'), location: '/d/SKILL.md' });
    const created = session && (await runtime.createSession({ id: 's', cwd: '/w', ...session }));
    if (created && !asks) created.bypass('all');
    return {
        runtime,
        now,
        skill,
        session: created,
        /** Opens another runtime on the same storage; in memory there is none. */
        another: persistent ? (more) => rc.Runtime.open({ storage, now, ...more }) : undefined,
        /** Everything stored, as text. In memory, everything that can be asked for. */
        async stored() {
            if (persistent) return toText(await dump(name));
            const { permissions, projects, jobs } = runtime;
            const found = [runtime.skills.list(), await permissions.listGroups(), await permissions.listRules()];
            found.push(await projects.listProjects(), await projects.listTickets(), await jobs.listJobs());
            for (const { id } of await runtime.listSessions({ limit: 500 })) {
                const opened = await runtime.openSession(id);
                found.push(opened.header, opened.state, await opened.readMessages({ limit: 1000 }));
            }
            return toText(found);
        },
        /** Changes a stored record, past the package. */
        edit: (store, key, change) => edit(name, store, key, change),
        async close() {
            await runtime.close();
            if (persistent) indexedDB.deleteDatabase(name);
        },
    };
}
