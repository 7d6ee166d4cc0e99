// The packed package in a real workerd, bundled as wrangler does it.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { workers } from '../support/workerd.mjs';

/** The first one uses the package without `init()`; the second one starts it in the middle of its own start. */
const LATER = `
import * as rc from 'runcontext';

const WORK = {
    render: () => rc.renderSystemPrompt([{ name: 'preamble', content: 'Be brief.' }]),
    async init() {
        const results = await Promise.all([rc.init(), rc.init()]);
        return [...results, await rc.init()].map((result) => result === undefined);
    },
    async session() {
        const answers = [
            { role: 'assistant', content: [{ type: 'toolCall', id: 'c', name: 'look', arguments: {} }], stopReason: 'toolUse' },
            { role: 'assistant', content: [{ type: 'text', text: 'Done.' }], stopReason: 'stop' },
        ];
        const tools = [{ name: 'look', access: 'none', execute: () => 'seen' }];
        const runtime = await rc.Runtime.open({ model: { complete: async () => answers.shift() }, tools });
        const session = await runtime.createSession({ cwd: '/w' });
        session.bypass('all');
        const result = await session.prompt('Hello');
        return { info: runtime.storageInfo, result, roles: session.messages.map(({ role }) => role) };
    },
};

export default {
    fetch: async (request) => Response.json(await WORK[new URL(request.url).pathname.slice(1)]()),
};
`;

const AT_ONCE = `
import { splitSystemPrompt } from 'runcontext';

const sections = splitSystemPrompt('Be brief.');

export default { fetch: () => Response.json(sections) };
`;

let made, workerd;
before(async () => {
    made = await workers({ later: LATER, once: AT_ONCE });
    workerd = await made.start();
});
after(async () => {
    await workerd?.kill();
    await made?.remove();
});

test('the import alone suffices, in a request and as a worker starts', async () => {
    assert.equal(await workerd.ask('later', '/render'), 'Be brief.');
    assert.deepEqual(await workerd.ask('once', '/'), [{ name: 'preamble', content: 'Be brief.' }]);
});

test('init() still works, twice and at once', async () => {
    assert.deepEqual(await workerd.ask('later', '/init'), [true, true, true]);
});

test('a session runs, in memory, and storageInfo says so', async () => {
    const { info, result, roles } = await workerd.ask('later', '/session');
    assert.deepEqual([info.kind, info.persistent], ['memory', false]);
    assert.deepEqual(result, { outcome: 'success', saved: true });
    assert.deepEqual(roles, ['user', 'assistant', 'toolResult', 'assistant']);
});
