// Sessions and the runtime that holds them: opening, sharing, listing, deleting, closing.

import { fails, ok, same, soon } from './check.mjs';
import { assistant, deferred, handClock, outcome, scripted } from './kit.mjs';
import { world } from './world.mjs';

const SUCCESS = Object.freeze({ outcome: 'success', saved: true });

/** Every method that needs the session, with arguments that are fine. */
const METHODS = {
    prompt: ['Hi'], begin: ['Hi'], setPermissionPreset: [null], configure: [{}], setTitle: ['x'], setPinned: [true], markRead: [0],
    readMessages: [{ limit: 1 }], flush: [], abandon: [], resume: [], resumePrompt: [], setRunContext: [null],
    gate: [{ toolCallId: 'c', toolName: 't', arguments: {} }], explain: [{ toolCallId: 'c', toolName: 't', arguments: {} }],
};

export const cases = {
    async 'two handles of one session are one session'() {
        const at = await world();
        const other = await at.runtime.openSession('s');
        ok(other !== at.session, 'handles are made anew');
        const heard = [];
        other.subscribe((event) => heard.push(event.type));
        const running = at.session.prompt('Hi');
        await fails(() => other.prompt('Hi'), 'session_busy');
        same(await running, SUCCESS);
        same(JSON.stringify(other.messages), JSON.stringify(at.session.messages));
        same(other.state.messageCount, 2);
        ok(heard.includes('turn-start') && heard.includes('turn-end'), `heard ${heard}`);
        await other.setTitle('Shared');
        same(at.session.state.title, 'Shared');
        const turn = await other.begin('On');
        same(at.session.state.isRunning, true);
        await turn.cancel();
        await at.session.dispose();
        await fails(() => other.setTitle('x'), 'disposed');
        const again = await at.runtime.openSession('s');
        same([again.state.title, again.state.messageCount], ['Shared', 2]);
        await at.close();
    },

    async 'opening while it is being opened, or created, gives one session'() {
        const at = await world();
        await at.session.prompt('Hi');
        await at.session.dispose();
        const handles = await Promise.all(Array.from({ length: 8 }, () => at.runtime.openSession('s')));
        await handles[0].setTitle('One');
        same(handles.map((handle) => handle.state.title), Array(8).fill('One'));
        same((await Promise.all(handles.map((handle) => outcome(() => handle.prompt('Hi'))))).filter((found) => found.gave).length, 1);
        const created = await Promise.all(Array.from({ length: 4 }, () => outcome(() => at.runtime.createSession({ id: 'new' }))));
        same(created.filter((found) => found.gave).length, 1);
        same(created.filter((found) => found.rejected?.code === 'conflict').length, 3);
        await at.close();
    },

    async 'a disposed session answers its getters, refuses everything else, and can be disposed again'() {
        const at = await world();
        await at.session.prompt('Hi');
        await at.session.dispose();
        await at.session.dispose();
        for (const [name, args] of Object.entries(METHODS)) await fails(() => at.session[name](...args), 'disposed');
        same([at.session.id, at.session.messages.length, at.session.state.messageCount, at.session.header.messageCount], ['s', 2, 2, 2]);
        await at.session.abort();
        await at.close();
    },

    async 'a session with a running turn can be neither disposed nor deleted, nor its runtime closed'() {
        const gate = deferred();
        const at = await world({ model: { complete: async () => (await gate.promise, assistant('Done.')) } });
        const running = at.session.prompt('Hi');
        await fails(() => at.session.dispose(), 'session_busy');
        await fails(() => at.runtime.deleteSession('s'), 'session_busy');
        await fails(() => at.runtime.close(), 'session_busy');
        // Nothing was closed half way.
        same((await at.runtime.listSessions()).length, 1);
        same((await (await at.runtime.createSession({ id: 'other' })).setTitle('x')), undefined);
        gate.resolve();
        same(await running, SUCCESS);
        await at.session.dispose();
        await at.close();
    },

    async 'a session is let go of, and its runtime closed, once what is on its way is saved'() {
        const at = await world({ model: { complete: async () => assistant('Done.') } });
        const settings = [at.session.setTitle('t'), at.session.setPermissionPreset('workspace-write'), at.session.setPinned(true)];
        await at.session.dispose();
        same(await Promise.all(settings), [undefined, undefined, undefined]);
        const again = await at.runtime.openSession('s');
        same([again.state.title, again.permissionPreset, again.state.pinned], ['t', 'workspace-write', true]);
        const late = again.setTitle('late');
        await at.runtime.close();
        same(await late, undefined);
    },

    async 'titles, pins and reading go on beside a running turn'() {
        const gate = deferred();
        const at = await world({ model: { complete: async () => (await gate.promise, assistant('Done.')) } });
        const { session } = at;
        const running = session.prompt('Hi');
        await session.setTitle('While');
        await session.setPinned(true);
        same(await session.markRead(9), true);
        same(await session.markRead(1), false);
        same((await session.readMessages({ limit: 9 })).length, 1);
        await fails(() => session.setPermissionPreset(null), 'session_busy');
        await fails(() => session.configure({}), 'session_busy');
        await fails(() => session.flush(), 'session_busy');
        gate.resolve();
        same(await running, SUCCESS);
        const { title, pinned, unread, messageCount } = session.state;
        same([title, pinned, unread, messageCount], ['While', true, 1, 2]);
        await at.close();
    },

    async 'a deleted session is gone, its handles are disposed, and its id is free'() {
        const at = await world();
        const kept = await at.runtime.createSession({ id: 'kept' });
        await kept.prompt('Hi $demo');
        const before = await at.stored();
        const gone = await at.runtime.createSession({ id: 'gone' });
        await gone.prompt('Hi $demo');
        await at.runtime.deleteSession('gone');
        await fails(() => gone.prompt('Hi'), 'disposed');
        await fails(() => at.runtime.openSession('gone'), 'not_found');
        await fails(() => at.runtime.deleteSession('gone'), 'not_found');
        same(await at.stored(), before);
        const again = await at.runtime.createSession({ id: 'gone' });
        same([again.state.messageCount, again.getRuntimeContexts().length], [0, 0]);
        await again.dispose();
        await at.runtime.deleteSession('gone');
        same(await at.stored(), before);
        await at.close();
    },

    async 'a closed runtime refuses everything, its sessions are disposed, and it can be closed again'() {
        const at = await world();
        await at.runtime.close();
        await at.runtime.close();
        for (const work of [
            () => at.runtime.createSession(), () => at.runtime.openSession('s'), () => at.runtime.continueRecent(), () => at.runtime.listSessions(),
            () => at.runtime.deleteSession('s'), () => at.runtime.skills.add({ content: '---\nname: x\ndescription: y\n---\nz', location: '/x' }),
            () => at.runtime.skills.remove(at.skill.id), () => at.runtime.skills.setEnabled(at.skill.id, false), () => at.runtime.skills.refresh(),
            () => at.runtime.skills.addSource({ scope: 's', list: () => [] }), () => at.session.prompt('Hi'),
        ]) {
            await fails(work, 'disposed');
        }
        same(at.runtime.skills.list().length, 1);
        ok(typeof at.runtime.storageInfo.kind === 'string', 'storageInfo');
    },

    async 'sessions are listed newest first, then by id from the last, page by page'() {
        const now = handClock(1000);
        const at = await world({ now, session: false });
        const ids = Array.from({ length: 120 }, (_, index) => `s${String(index).padStart(3, '0')}`);
        for (const [index, id] of ids.entries()) {
            // Three to a time.
            now.now = 1000 + Math.floor(index / 3);
            await at.runtime.createSession({ id, cwd: index % 2 ? '/odd' : '/even' });
        }
        const expected = [...ids].reverse();
        const listed = async (filter) => (await at.runtime.listSessions(filter)).map((entry) => entry.id);
        same(await listed(), expected.slice(0, 50));
        same(await listed({ limit: 1000 }), expected);
        same(await listed({ limit: 7 }), expected.slice(0, 7));
        const pages = [];
        for (let before; ; ) {
            const page = await at.runtime.listSessions({ limit: 50, before });
            pages.push(page.map((entry) => entry.id));
            if (page.length === 0) break;
            before = page.at(-1).cursor;
        }
        same(pages.map((page) => page.length), [50, 50, 20, 0]);
        same(pages.flat(), expected);
        const odd = expected.filter((id) => Number(id.slice(1)) % 2);
        same(await listed({ cwd: '/odd' }), odd.slice(0, 50));
        const [first] = await at.runtime.listSessions({ cwd: '/odd', limit: 1 });
        same(await listed({ cwd: '/odd', before: first.cursor, limit: 3 }), odd.slice(1, 4));
        same(await listed({ cwd: '/nowhere' }), []);
        same(await listed({ cwd: '/od' }), []);
        // A session that is used comes first.
        now.now = 5000;
        const used = await at.runtime.openSession('s003');
        await used.prompt('Hi');
        same((await listed({ limit: 2 })), ['s003', 's119']);
        for (const before of ['', 'x', '5', ':s', 'a:b', '1.5:s', '-1:s']) await fails(() => at.runtime.listSessions({ before }), 'invalid_argument');
        await at.close();
    },

    async 'no more than 500 sessions are listed at once'() {
        const at = await world({ session: false });
        await Promise.all(Array.from({ length: 501 }, () => at.runtime.createSession()));
        same((await at.runtime.listSessions({ limit: 100_000 })).length, 500);
        await at.close();
    },

    async 'an entry of the list says what the session is'() {
        const now = handClock(1000);
        const at = await world({ now, model: scripted(() => Promise.reject(new Error('no'))) });
        same(await at.runtime.listSessions(), Object.freeze([
            { id: 's', cwd: '/w', pinned: false, messageCount: 0, unread: 0, createdAt: 1000, updatedAt: 1000, cursor: '1000:s' },
        ]));
        now.now = 2000;
        await at.session.prompt('Hi');
        await at.session.setTitle('T');
        await at.session.setPinned(true);
        same(await at.runtime.listSessions(), Object.freeze([{
            id: 's', cwd: '/w', title: 'T', pinned: true, messageCount: 1, unread: 1, createdAt: 1000, updatedAt: 2000, outcome: 'error', cursor: '2000:s',
        }]));
        await at.close();
    },

    async 'continueRecent() opens what was used last, of a working directory or of all, or makes one'() {
        const now = handClock(1000);
        const at = await world({ now, session: false, host: { cwd: '/host' } });
        const made = await at.runtime.continueRecent();
        same(made.header.cwd, '/host');
        now.now = 2000;
        await at.runtime.createSession({ id: 'a', cwd: '/a' });
        now.now = 3000;
        await at.runtime.createSession({ id: 'b', cwd: '/b' });
        same((await at.runtime.continueRecent()).id, 'b');
        same((await at.runtime.continueRecent('/a')).id, 'a');
        now.now = 4000;
        await (await at.runtime.openSession('a')).prompt('Hi');
        same((await at.runtime.continueRecent()).id, 'a');
        const fresh = await at.runtime.continueRecent('/c');
        same([fresh.header.cwd, fresh.state.messageCount], ['/c', 0]);
        same((await at.runtime.listSessions()).length, 4);
        await at.close();
    },

    async 'pages of messages end where they should'() {
        const at = await world();
        for (let round = 0; round < 3; round++) await at.session.prompt(`Number ${round}`);
        const page = async (given) => (await at.session.readMessages(given)).map((message) => at.session.messages.findIndex((other) => other === message || JSON.stringify(other) === JSON.stringify(message)));
        const roles = async (given) => (await at.session.readMessages(given)).map((message) => message.role[0]).join('');
        same(await roles({ limit: 100 }), 'uauaua');
        same(await roles({ limit: 2 }), 'ua');
        same(await page({ limit: 2, before: 2 }), [0, 1]);
        same(await roles({ limit: 5, before: 1 }), 'u');
        same(await roles({ limit: 5, before: 0 }), '');
        same(await roles({ limit: 1, before: 4_294_967_295 }), 'a');
        same((await at.session.readMessages({ limit: 1, before: 5 }))[0].content, 'Number 2');
        await at.close();
    },

    async 'settings are there after reopening'() {
        const at = await world({ session: { agentId: 'a', source: 'tic', headless: true, systemPrompt: 'Be.', model: { provider: 'p', id: 'm', maxTokens: 5 } } });
        const { session } = at;
        await session.setPermissionPreset(null);
        await session.configure({ sections: [{ name: 'z', content: '1' }, { name: 'a', content: '2' }] });
        await session.prompt('Hi');
        await session.setTitle('T');
        await session.markRead(1);
        await session.configure({ model: null });
        const before = JSON.stringify([session.header, session.state]);
        await session.dispose();
        const again = await at.runtime.openSession('s');
        // The estimate of the last request is not kept.
        same(JSON.stringify([again.header, { ...again.state, contextBudget: session.state.contextBudget }]).length, before.length);
        same(JSON.stringify(again.header), JSON.stringify(session.header));
        const { permissionPreset, title, unread, outcome: last } = again.state;
        same([permissionPreset, title, unread, last], [null, 'T', 1, 'success']);
        same([again.header.model, again.header.headless, again.header.sections.map((section) => section.name)], [null, true, ['z', 'a']]);
        await at.close();
    },

    async 'sixteen sessions run side by side'() {
        let running = 0;
        let most = 0;
        const gate = deferred();
        const at = await world({
            session: false,
            model: {
                async complete() {
                    most = Math.max(most, ++running);
                    if (running === 16) gate.resolve();
                    await gate.promise;
                    running--;
                    return assistant('Done.');
                },
            },
        });
        const sessions = await Promise.all(Array.from({ length: 16 }, (_, index) => at.runtime.createSession({ id: `s${index}` })));
        const results = await soon(Promise.all(sessions.map((session) => session.prompt(`I am ${session.id}`))), 'the end of all');
        same(results, Array(16).fill(SUCCESS));
        same(most, 16);
        for (const session of sessions) same(session.messages.map((message) => message.content)[0], `I am ${session.id}`);
        await at.close();
    },
};
