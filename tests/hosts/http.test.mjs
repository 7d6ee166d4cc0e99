// The HTTP routes over real HTTP: the servers of the README, and the worker of `examples/worker` in a real workerd.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { pathToFileURL } from 'node:url';

import { Validator } from '@seriousme/openapi-schema-validator';

import { client, documented, raw, served, WORK, WORKS } from '../support/http.mjs';
import { installed, packageFolder } from '../support/project.mjs';
import { workers } from '../support/workerd.mjs';

const CLASSES = ['ChatObject', 'DeskObject', 'SessionObject', 'SharedObject', 'DirectoryObject'];
const HEAD = "import { Runtime } from 'runcontext';\n";
/** Whoever has the token may do everything. */
const RUNTIME = `${HEAD}
const runtime = await Runtime.open({ storage: 'memory', authorize: async (request) => request.headers.get('authorization') === 'Bearer all' });
await runtime.createSession({ id: 's', cwd: '/w' });
${WORK}
`;
/** A worker with one runtime for all of its requests. */
const one = (storage) => `${HEAD}
import { durableObjects } from 'runcontext/storage/durable-objects';
let opened;
const open = async (env) => {
    const runtime = await Runtime.open({ storage: ${storage}, authorize: (request) => request.headers.get('authorization') === 'Bearer all' });
    // On the objects it may be there since an earlier start.
    await runtime.createSession({ id: 's', cwd: '/w' }).catch(({ code }) => code === 'conflict' || Promise.reject(code));
    ${WORK}
    return runtime;
};
export default { fetch: async (request, env) => (await (opened ??= open(env))).fetch(request) };
`;
const IN_MEMORY = one("'memory'");
const ON_OBJECTS = one("durableObjects({ sessions: env.SessionObject, shared: env.SharedObject, directory: env.DirectoryObject, space: 'other' })");

let project, node, example, workerd, worker;
before(async () => {
    project = await installed();
    node = await served(project, 'node', RUNTIME);
    const source = await readFile(new URL('../../examples/worker/worker.js', import.meta.url), 'utf8');
    const all = { worker: source, memory: IN_MEMORY, objects: ON_OBJECTS, works: WORKS };
    example = await workers(all, { classes: CLASSES, texts: { TOKEN: 'all', READER: 'look' } });
    workerd = await example.start();
    worker = workerd.url('worker');
    await workerd.ask('works', '/');
});
after(async () => {
    await Promise.all([node?.stop(), workerd?.kill()]);
    await Promise.all([project?.remove(), example?.remove()]);
});

/** Every server, with a session on it. */
async function everywhere(look) {
    await finished(worker, 's');
    for (const url of [node.url, worker, workerd.url('memory'), workerd.url('objects')]) await look(client(url), url);
}

/** The package in this process. */
const library = () => import(pathToFileURL(path.join(project.folder, 'node_modules/runcontext/node.js')).href);

/** The events of a turn, as they come. */
async function* turn(url, session, text) {
    const response = await fetch(`${url}/chat/${session}`, { method: 'POST', body: text, headers: { authorization: 'Bearer all' } });
    assert.equal(response.status, 200, await (response.ok ? '' : response.text()));
    let said = '';
    for await (const part of response.body.pipeThrough(new TextDecoderStream())) {
        const lines = (said + part).split('\n');
        said = lines.pop();
        for (const line of lines) yield JSON.parse(line);
    }
}

async function all(events) {
    const list = [];
    for await (const event of events) list.push(event);
    return list;
}

/** A whole turn: what was answered at its end, and its results. */
async function finished(url, session, text = 'Hello') {
    const events = await all(turn(url, session, text));
    assert.deepEqual(events.at(-1).result ?? events.find(({ type }) => type === 'turn-end')?.result, { outcome: 'success', saved: true }, JSON.stringify(events.at(-1)));
    const messages = events.filter(({ type }) => type === 'message').map(({ message }) => message);
    return { text: messages.at(-1).content[0].text, results: messages.filter(({ role }) => role === 'toolResult'), events };
}

/** Waits for what a turn asks. */
async function next(events, type) {
    for (;;) {
        const { value, done } = await events.next();
        if (done) throw new Error(`the turn ended before ${type}`);
        if (value.type === type) return value;
    }
}

const call = (name, args) => `call ${name} ${JSON.stringify(args)}`;
const REFUSED = { error: { code: 'unauthorized', message: "nobody allows this; the host's `authorize` has to answer true" } };

test('without authorize everything is 403, and so is what it does not answer with true', async () => {
    const { Runtime } = await library();
    const answers = [undefined, () => false, () => 'true', () => 1, () => ({}), async () => undefined, () => { throw new Error('secret detail'); }, () => Promise.reject(new Error('secret detail'))];
    for (const authorize of answers) {
        const runtime = await Runtime.open({ storage: 'memory', ...(authorize && { authorize }) });
        await runtime.createSession({ id: 's' });
        for (const [method, at] of [['GET', '/api/inbox'], ['POST', '/api/permission-groups'], ['POST', '/api/sessions/s/run_context'], ['DELETE', '/api/approval/rules/4']]) {
            // A body that must not be looked at.
            const body = method === 'POST' ? 'no JSON' : undefined;
            const request = new Request(`http://h${at}`, { method, body });
            const response = await runtime.fetch(request);
            assert.deepEqual([response.status, await response.json(), request.bodyUsed], [403, REFUSED, false], String(authorize));
        }
        if (!authorize) {
            for (const init of [{ method: 'OPTIONS' }, { method: 'HEAD' }, {}]) {
                assert.equal((await runtime.fetch(new Request('http://h/nowhere', init))).status, 403);
            }
        }
        assert.deepEqual((await runtime.permissions.listRules()).map(({ id }) => id), [-1, 1, 2, 3, 4]);
        const failed = String(authorize).includes('secret');
        assert.deepEqual(runtime.listenerErrors, failed ? Array(4).fill('`authorize` failed: secret detail') : []);
    }
});

test('authorize sees the request and what it asks for, with its ids, before the body is read', async () => {
    const { Runtime } = await library();
    const seen = [];
    const runtime = await Runtime.open({
        storage: 'memory',
        authorize(request, operation) {
            seen.push([request.method, request.bodyUsed, operation]);
            return true;
        },
    });
    await runtime.createSession({ id: 's' });
    const ask = (method, at, body) => runtime.fetch(new Request(`http://h${at}`, { method, body, headers: { 'content-type': 'application/json' } }));
    assert.equal((await ask('POST', '/api/sessions/s/run_context?x=1', 'null')).status, 200);
    assert.equal((await ask('DELETE', '/api/approval/rules/4')).status, 204);
    assert.equal((await ask('POST', '/api/inbox/approvals/a%20b/resolve', '{"action":"reject"}')).status, 404);
    assert.equal((await ask('GET', '/api/nowhere')).status, 404);
    assert.deepEqual(seen, [
        ['POST', false, { operation: 'setSessionRunContext', method: 'POST', route: '/api/sessions/{id}/run_context', id: 's' }],
        ['DELETE', false, { operation: 'deleteRule', method: 'DELETE', route: '/api/approval/rules/{id}', id: '4' }],
        ['POST', false, { operation: 'resolveApproval', method: 'POST', route: '/api/inbox/approvals/{request_id}/resolve', request_id: 'a b' }],
    ]);
});

test('a request that is aborted, or whose body was read or breaks off, is answered and changes nothing', async () => {
    const { Runtime } = await library();
    let authorize = () => true;
    const runtime = await Runtime.open({ storage: 'memory', authorize: (request) => authorize(request) });
    const session = await runtime.createSession({ id: 's' });
    const ask = async (init) => {
        const request = new Request('http://h/api/sessions/s/run_context', { method: 'POST', body: '{}', duplex: 'half', ...init, headers: { 'content-type': 'application/json' } });
        const response = await runtime.fetch(request);
        return [response.status, (await response.json()).error?.code];
    };
    const stop = new AbortController();
    const waits = ask({ signal: stop.signal, body: new ReadableStream({ pull: () => new Promise(() => {}) }) });
    setTimeout(() => stop.abort(), 10);
    assert.deepEqual(await waits, [408, 'aborted']);
    assert.deepEqual(await ask({ signal: AbortSignal.abort() }), [408, 'aborted']);
    authorize = () => new Promise(() => {});
    assert.deepEqual(await ask({ signal: AbortSignal.timeout(10) }), [408, 'aborted']);
    authorize = () => true;
    const breaks = new ReadableStream({
        pull(controller) {
            controller.enqueue(new TextEncoder().encode('{'));
            controller.error(new Error('gone'));
        },
    });
    assert.deepEqual(await ask({ body: breaks }), [408, 'aborted']);
    authorize = async (request) => (await request.text()) === '{}';
    assert.deepEqual(await ask({}), [500, 'host_failed']);
    assert.equal(session.runContext, null);
    await assert.rejects(runtime.fetch('http://h/api/inbox'), { code: 'invalid_argument' });
    await runtime.close();
    authorize = () => true;
    assert.deepEqual(await ask({}), [503, 'disposed']);
});

test('nobody gets in by a trick with the path or the method', async () => {
    await everywhere(async (ask, url) => {
        for (const at of ['/', '/api', '/api/inbox/', '//api/inbox', '/api//inbox', '/api/sessions//run_context', '/api/sessions/s/run_context/', '/%61pi/inbox', '/api%2finbox', '/api/Inbox', '/api/sessions/s']) {
            assert.equal((await ask('GET', at)).status, 404, at);
        }
        for (const id of ['%2f', 'a%2fb', '%5c', '%', '%zz', '%ff', '%00', '%c3']) {
            assert.equal((await ask('GET', `/api/sessions/${id}/run_context`)).status, 400, id);
        }
        assert.deepEqual((await ask('GET', '/api/sessions/nobody/run_context')).body.error.code, 'not_found');
        for (const [method, at, allow] of [
            ['HEAD', '/api/inbox', 'GET'], ['OPTIONS', '/api/inbox', 'GET'], ['DELETE', '/api/inbox', 'GET'], ['PATCH', '/api/sessions/s/run_context', 'GET, POST'],
            ['HEAD', '/api/approval/rules', 'GET, POST'], ['GET', '/api/approval/rules/4', 'PUT, DELETE'], ['OPTIONS', '/api/permission-groups/g/duplicate', 'POST'],
        ]) {
            const answer = await ask(method, at, undefined, { origin: 'http://elsewhere', 'access-control-request-method': 'POST' });
            assert.deepEqual([answer.status, answer.allow], [405, allow], `${method} ${at}`);
        }
        // As it stands in the request: none of these gets to anything that it does not name.
        const token = 'authorization: Bearer all\r\ncontent-length: 0\r\nhost: h\r\n\r\n';
        for (const at of ['/api/sessions/../inbox/x', '/api/sessions/%2e%2e/run_context', '/api/sessions/./run_context', '/api/approval/rules/4/../5', '/../api/inbox/..', '/api\\inbox', 'http://h/api/nowhere']) {
            const status = await raw(url, `DELETE ${at} HTTP/1.1\r\n${token}`);
            assert.ok([400, 404, 405, undefined].includes(status), `${at}: ${status}`);
        }
        for (const method of ['TRACE', 'TRACK', 'get', 'FOO', 'G\0ET']) {
            const status = await raw(url, `${method} /api/inbox HTTP/1.1\r\n${token}`);
            assert.ok([400, 405, 501, undefined].includes(status), `${method}: ${status}`);
        }
        assert.ok((await ask('GET', '/api/approval/rules')).body.some(({ id }) => id === 4));
    });
});

test('a body that is not what it says, or too much, is refused and has no effect', async () => {
    await everywhere(async (ask) => {
        const at = '/api/sessions/s/run_context';
        const set = { security_group: null, system_prompt: ['Stay.'], allow_fs_writes: [], allow_fs_reads: [], working_directory: null };
        assert.deepEqual(await ask('POST', at, { system_prompt: ['Stay.'] }), { status: 200, body: set, allow: undefined });
        const status = async (body, headers) => (await ask('POST', at, body, headers)).status;
        for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data', 'application/jsonx']) assert.equal(await status('{}', { 'content-type': type }), 415, type);
        const deep = (depth) => `${'['.repeat(depth)}${']'.repeat(depth)}`;
        const bad = {
            empty: '', 'no JSON': '{', 'not UTF-8': new Uint8Array([0x22, 0xff, 0x22]), 'a byte order mark': '\ufeffnull', 'half of a pair': '{"working_directory":"\\ud800"}',
            'deep': deep(10_000), 'very deep': deep(500_000), 'deep objects': '{"a":'.repeat(10_000) + 'null' + '}'.repeat(10_000),
            'a name twice': '{"working_directory":"/a","working_directory":"/b"}', 'a list': '[]', 'a text': '"x"', 'a wrong type': '{"system_prompt":"x"}',
            'a root': '{"allow_fs_writes":["/"]}', 'a number without end': '{"a":1e999}', 'a misspelt name': '{"allow_fs_write":["logs"]}',
        };
        for (const [what, body] of Object.entries(bad)) assert.equal(await status(body), 400, what);
        const long = `"${'x'.repeat(1024 * 1024)}"`;
        assert.equal(await status(long), 413);
        // Without a length, and without an end: it is not waited for.
        let parts = 0;
        const endless = new ReadableStream({
            pull: (controller) => (parts++ < 17 ? controller.enqueue(new Uint8Array(64 * 1024).fill(0x20)) : new Promise(() => {})),
        });
        assert.equal(await status(endless), 413);
        assert.equal(await status(`${' '.repeat(1024 * 1024 - 4)}null`), 200);
        assert.deepEqual((await ask('GET', at)).body, null);
        assert.equal((await ask('POST', at, { system_prompt: ['Stay.'] })).status, 200);
        // Names of prototypes are refused, wherever they stand.
        for (const [path, body] of [['/api/permission-groups', '{"__proto__":{"id":"p","name":"P"},"constructor":{"prototype":{"name":"P"}}}'], ['/api/approval/rules', '{"__proto__":{"action":"allow","tool_pattern":"*"}}']]) {
            assert.equal((await ask('POST', path, body)).status, 400);
        }
        for (const name of ['__proto__', 'constructor', 'prototype']) {
            assert.equal(await status(`{"${name}":{"working_directory":"/elsewhere"},"system_prompt":["Go."]}`), 400, name);
            assert.equal(await status(`{"system_prompt":["Go."],"more":[{"${name}":{"polluted":true}}]}`), 400, name);
        }
        assert.deepEqual([(await ask('GET', at)).body.working_directory, (await ask('GET', at)).body.system_prompt], [null, ['Stay.']]);
        for (const id of ['__proto__', 'constructor', 'prototype', 'toString']) {
            assert.equal((await ask('GET', `/api/sessions/${id}/run_context`)).status, 404, id);
            assert.equal((await ask('PUT', `/api/permission-groups/${id}`, { name: 'N' })).status, 404, id);
            assert.equal((await ask('DELETE', `/api/approval/rules/${id}`)).status, 404, id);
        }
    });
});

test('what the README serves on Node takes its path from the request line, whatever `Host` says', async () => {
    const status = (target, host) => raw(node.url, `GET ${target} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\nAuthorization: Bearer all\r\n\r\n`);
    for (const host of ['a', 'a/api/inbox?', 'a/api/inbox#', 'b@a', 'a\\api']) {
        assert.equal(await status('/api/inbox', host), 200, host);
        assert.equal(await status('/api/nothing', host), 404, host);
    }
    for (const target of ['@a/api/inbox', 'http://a/api/inbox', '//a/api/inbox', 'a/api/inbox']) {
        assert.ok([400, 404].includes(await status(target, 'a')), target);
    }
});

test('rules and groups are edited, and what cannot be is refused as in JavaScript', async () => {
    await everywhere(async (ask) => {
        const is = async (method, at, body, status, code) => {
            const answer = await ask(method, at, body);
            assert.deepEqual([answer.status, answer.body?.error?.code], [status, code], `${method} ${at} ${JSON.stringify(answer.body)}`);
            return answer.body;
        };
        const group = { id: 'team', name: 'Team', description: null };
        assert.deepEqual(await is('POST', '/api/permission-groups', { id: 'team', name: 'Team' }, 201), group);
        await is('POST', '/api/permission-groups', { id: 'team', name: 'Other' }, 409, 'conflict');
        assert.deepEqual(await is('PUT', '/api/permission-groups/team', { name: 'A team', description: 'Ours.' }, 200), { id: 'team', name: 'A team', description: 'Ours.' });
        await is('PUT', '/api/permission-groups/nobody', { name: 'N' }, 404, 'not_found');
        await is('DELETE', '/api/permission-groups/default', undefined, 409, 'group_protected');
        const rule = await is('POST', '/api/approval/rules', { tool_pattern: 'write_file', action: 'deny', group_id: 'team', path_pattern: 'private/*' }, 201);
        const { id, ...rest } = rule;
        assert.ok(Number.isSafeInteger(id) && id > 4);
        assert.deepEqual(rest, { agent_id: null, source: null, tool_pattern: 'write_file', path_pattern: 'private/*', action: 'deny', note: null, priority: 100, group_id: 'team' });
        assert.deepEqual(await is('PUT', `/api/approval/rules/${id}`, { note: 'private', locked: true, path_pattern: null }, 200), { ...rule, note: 'private', path_pattern: null, locked: true });
        await is('PUT', `/api/approval/rules/${id}`, { action: 'allow' }, 400, 'invalid_argument');
        await is('POST', '/api/approval/rules', { tool_pattern: '*', action: 'allow' }, 409, 'rule_conflict');
        await is('POST', '/api/approval/rules', { tool_pattern: 'x', action: 'deny', group_id: 'nobody' }, 404, 'not_found');
        await is('PUT', '/api/approval/rules/-1', { note: 'x' }, 409, 'group_protected');
        for (const none of ['+4', '04', '4.0', '1e0', 'x', '99999', '9999999999999999999999']) await is('DELETE', `/api/approval/rules/${none}`, undefined, 404, 'not_found');
        assert.deepEqual(await is('POST', '/api/permission-groups/team/duplicate', { id: 'copy', name: 'Copy' }, 201), { id: 'copy', name: 'Copy', description: 'Ours.' });
        const rules = await is('GET', '/api/approval/rules', undefined, 200);
        assert.deepEqual(rules.filter(({ group_id }) => group_id === 'copy').map(({ note, locked }) => [note, locked]), [['private', true]]);
        assert.deepEqual((await is('GET', '/api/permission-groups', undefined, 200)).map(({ id }) => id), ['copy', 'default', 'team']);
        await is('DELETE', `/api/approval/rules/${id}`, undefined, 204);
        await is('DELETE', `/api/approval/rules/${id}`, undefined, 404, 'not_found');
        for (const id of ['team', 'copy']) await is('DELETE', `/api/permission-groups/${id}`, undefined, 204);
    });
});

test('run contexts of projects, tickets and jobs are set, replaced, cleared and read back', async () => {
    await everywhere(async (ask) => {
        const whole = (given) => ({ security_group: null, system_prompt: [], allow_fs_writes: [], allow_fs_reads: [], working_directory: null, ...given });
        const is = async (method, at, body, status, answer) => assert.deepEqual(await ask(method, at, body), { status, body: answer, allow: undefined }, `${method} ${at}`);
        for (const at of ['/api/projects/p/run_context', '/api/projects/p/tickets/t/run_context', '/api/jobs/j/run_context']) {
            await is('GET', at, undefined, 200, null);
            await is('POST', at, { system_prompt: ['One.'], allow_fs_writes: ['logs'] }, 200, whole({ system_prompt: ['One.'], allow_fs_writes: ['logs'] }));
            await is('GET', at, undefined, 200, whole({ system_prompt: ['One.'], allow_fs_writes: ['logs'] }));
            await is('POST', at, { working_directory: '/w/other' }, 200, whole({ working_directory: '/w/other' }));
            await is('GET', at, undefined, 200, whole({ working_directory: '/w/other' }));
            for (const bad of [{ allow_fs_writes: ['/'] }, { system_prompt: 'x' }, [], '{"security_group":"a","security_group":"b"}']) assert.equal((await ask('POST', at, bad)).status, 400);
            await is('GET', at, undefined, 200, whole({ working_directory: '/w/other' }));
            const values = ['one', 'two'].map((name) => whole({ security_group: name, system_prompt: [name] }));
            await Promise.all(values.map((value) => is('POST', at, value, 200, value)));
            const { body } = await ask('GET', at);
            assert.ok(values.some(({ security_group, system_prompt }) => security_group === body.security_group && system_prompt[0] === body.system_prompt[0]));
            await is('POST', at, null, 200, null);
            await is('GET', at, undefined, 200, null);
        }
        for (const at of ['/api/projects/none/run_context', '/api/projects/none/tickets/t/run_context', '/api/projects/p/tickets/none/run_context', '/api/jobs/none/run_context', '/api/jobs/t/run_context']) {
            for (const [method, body] of [['GET'], ['POST', null]]) assert.deepEqual((await ask(method, at, body)).body.error.code, 'not_found', at);
        }
        // A group that one of them names is in use.
        assert.equal((await ask('POST', '/api/permission-groups', { id: 'used', name: 'Used' })).status, 201);
        assert.equal((await ask('POST', '/api/jobs/j/run_context', { security_group: 'used' })).status, 200);
        assert.equal((await ask('DELETE', '/api/permission-groups/used')).body.error.code, 'group_in_use');
        assert.equal((await ask('POST', '/api/jobs/j/run_context', null)).status, 200);
        assert.equal((await ask('DELETE', '/api/permission-groups/used')).status, 204);
    });
});

test('on the worker, who may look may look, and chats with nobody', async () => {
    const look = client(worker, 'look');
    assert.equal((await look('GET', '/api/inbox')).status, 200);
    for (const [method, at] of [['POST', '/api/approval/rules'], ['DELETE', '/api/approval/rules/4'], ['POST', '/api/sessions/s/run_context'], ['POST', '/api/inbox/approvals/x/resolve']]) {
        assert.deepEqual((await look(method, at, method === 'POST' ? {} : undefined)).body, REFUSED, at);
    }
    for (const token of ['other', '', 'undefined']) assert.equal((await client(worker, token)('GET', '/api/inbox')).status, 403, token);
    const chat = await fetch(`${worker}/chat/s`, { method: 'POST', body: 'Hello', headers: { authorization: 'Bearer look' } });
    assert.equal(chat.status, 403);
    await chat.arrayBuffer();
});

test('a run context that is tightened decides the very next call of a live turn, and one that is loosened the next prompt', async () => {
    const ask = client(worker);
    const at = '/api/sessions/live/run_context';
    await finished(worker, 'live');
    assert.equal((await ask('POST', at, { allow_fs_writes: ['logs'] })).status, 200);
    const write = call('write_file', { path: 'logs/a.md', content: 'a' });
    const calm = await finished(worker, 'live', write);
    assert.deepEqual(calm.results.map(({ isError }) => isError), [false]);
    assert.match(calm.text, /^I am a script, not a model\.\n<permissions>[^]*logs/);

    const events = turn(worker, 'live', [call('clock', {}), write].join('\n'));
    const { requestId } = await next(events, 'approval-requested');
    const [{ session_id, tool_name, status }] = (await ask('GET', '/api/inbox')).body;
    assert.deepEqual([session_id, tool_name, status], ['live', 'clock', 'pending']);
    // Under another spelling the worker does not know where the session is live: it is set where it is stored, and read there.
    assert.equal((await ask('POST', '/api/sessions/li%76e/run_context', null)).body, null);
    assert.equal((await ask('POST', `/api/inbox/approvals/${requestId}/resolve`, { action: 'approve' })).body.outcome, 'approved');
    // The same call as before is asked about now.
    const second = await next(events, 'approval-requested');
    // What is loosened meanwhile loosens nothing of this turn.
    assert.equal((await ask('POST', at, { allow_fs_writes: ['logs'] })).status, 200);
    const pending = (await ask('GET', '/api/inbox')).body;
    assert.deepEqual(pending.map(({ request_id, paths: [{ canonical }] }) => [request_id, canonical]), [[second.requestId, '/work/logs/a.md']]);
    const rejected = await ask('POST', `/api/inbox/approvals/${second.requestId}/resolve`, { action: 'reject', note: 'Not today.' });
    assert.deepEqual(rejected.body, { request_id: second.requestId, outcome: 'rejected', note: 'Not today.', message: 'User rejected this tool call. Reason: Not today.' });
    const rest = await all(events);
    assert.deepEqual(rest.find(({ type }) => type === 'turn-end').result, { outcome: 'success', saved: true });

    const loose = await finished(worker, 'live', write);
    assert.deepEqual(loose.results.map(({ isError }) => isError), [false]);
    assert.match(loose.text, /<permissions>[^]*logs/);
    // It is stored: another workerd reads it.
    await workerd.kill();
    workerd = await example.start();
    worker = workerd.url('worker');
    assert.deepEqual((await client(worker)('GET', at)).body.allow_fs_writes, ['logs']);
});

test('rules and groups that are edited change the next decision of a live turn', async () => {
    const ask = client(worker);
    const events = turn(worker, 'ruled', [call('clock', {}), call('clock', {}), call('clock', {})].join('\n'));
    const { requestId } = await next(events, 'approval-requested');
    const { body: rule } = await ask('POST', '/api/approval/rules', { tool_pattern: 'clock', action: 'deny', priority: 1, note: 'no clocks' });
    // Approving looks at the rules again.
    assert.equal((await ask('POST', `/api/inbox/approvals/${requestId}/resolve`, { action: 'approve' })).body.outcome, 'rejected');
    await ask('PUT', `/api/approval/rules/${rule.id}`, { action: 'require' });
    let second;
    for await (const event of events) {
        if (event.type !== 'approval-requested') continue;
        second = event.requestId;
        assert.equal((await ask('PUT', `/api/approval/rules/${rule.id}`, { action: 'allow' })).status, 200);
        assert.equal((await ask('POST', `/api/inbox/approvals/${second}/resolve`, { action: 'approve' })).body.outcome, 'approved');
    }
    assert.equal((await ask('DELETE', `/api/approval/rules/${rule.id}`)).status, 204);
    assert.deepEqual((await ask('GET', '/api/inbox')).body, []);

    // A group that a run context names is in force, and stays.
    assert.equal((await ask('POST', '/api/permission-groups', { id: 'open', name: 'Open' })).status, 201);
    assert.equal((await ask('POST', '/api/approval/rules', { group_id: 'open', tool_pattern: 'clock', action: 'allow' })).status, 201);
    assert.equal((await ask('POST', '/api/sessions/ruled/run_context', { security_group: 'open' })).status, 200);
    const allowed = await finished(worker, 'ruled', call('clock', {}));
    assert.deepEqual(allowed.results.map(({ isError }) => isError), [false]);
    assert.equal((await ask('POST', '/api/sessions/ruled/run_context', null)).status, 200);
    assert.equal((await ask('DELETE', '/api/permission-groups/open')).status, 204);
});

test('an approval is listed, resolved with a bypass, and gone, and nobody is asked again', async () => {
    const ask = client(worker);
    const events = turn(worker, 'asked', [call('clock', {}), call('clock', {})].join('\n'));
    const { requestId } = await next(events, 'approval-requested');
    // Nobody guesses it.
    assert.match(requestId, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    const [pending, ...others] = (await ask('GET', '/api/inbox')).body;
    assert.deepEqual(others, []);
    assert.deepEqual({ ...pending, tool_call_id: '', created_at: '', message: '' }, {
        request_id: requestId, session_id: 'asked', tool_call_id: '', tool_name: 'clock', arguments: {}, agent_id: '', source: '', context_label: null, created_at: '',
        tool_category: 'time', mcp_server: null, paths: [], working_directory: '/work', reason: 'rule', message: '', status: 'pending',
    });
    assert.ok(Math.abs(Date.parse(pending.created_at) - Date.now()) < 60_000);
    const at = `/api/inbox/approvals/${requestId}/resolve`;
    for (const bad of [{}, { action: 'maybe' }, { action: 'approve', bypass_secs: -1 }, { action: 'approve', bypass_secs: '60' }, { action: 'approve', bypass_scope: 'tool' }, { action: 'approve', note: 1 }, { action: 'approve', bypas_secs: 0 }, { action: 'approve', more: 1 }, { action: 'approve', bypass_scope: 'all' }, { action: 'reject', bypass_secs: 5 }, null, []]) {
        assert.equal((await ask('POST', at, bad)).status, 400, JSON.stringify(bad));
    }
    assert.deepEqual((await ask('POST', at, { action: 'approve', bypass_secs: 0, bypass_scope: 'category' })).body, { request_id: requestId, outcome: 'approved', note: null, message: null });
    assert.equal((await ask('POST', at, { action: 'approve' })).body.error.code, 'approval_not_found');
    const rest = await all(events);
    assert.ok(rest.every(({ type }) => type !== 'approval-requested'));
    assert.deepEqual((await ask('GET', '/api/inbox')).body, []);
    // Until a restart: also in the next turn.
    const later = await finished(worker, 'asked', call('clock', {}));
    assert.deepEqual(later.results.map(({ isError }) => isError), [false]);
});

test('two writers at the same time end with one of the two values, whole', async () => {
    await everywhere(async (ask) => {
        const at = '/api/sessions/s/run_context';
        const value = (name) => ({ security_group: name, system_prompt: [name], allow_fs_writes: [name], allow_fs_reads: [name], working_directory: `/${name}` });
        for (let round = 0; round < 5; round++) {
            const values = [value(`one${round}`), value(`two${round}`)];
            const answers = await Promise.all(values.map((it) => ask('POST', at, it)));
            assert.deepEqual(answers.map(({ status, body }) => [status, body]), values.map((it) => [200, it]));
            const { body } = await ask('GET', at);
            assert.ok(values.some((it) => JSON.stringify(Object.entries(it).sort()) === JSON.stringify(Object.entries(body).sort())), JSON.stringify(body));
        }
    });
});

test('fifty requests at once are answered, each of them, and none is lost', async () => {
    await everywhere(async (ask, url) => {
        await ask('POST', '/api/permission-groups', { id: 'many', name: 'Many' });
        const requests = Array.from({ length: 50 }, (_, at) => [
            () => ask('POST', '/api/approval/rules', { group_id: 'many', tool_pattern: `t${at}`, action: 'deny' }),
            () => ask('POST', '/api/sessions/s/run_context', { system_prompt: [String(at)] }),
            () => ask('GET', '/api/sessions/s/run_context'),
            () => ask('GET', '/api/approval/rules'),
            () => ask('GET', '/api/inbox'),
        ][at % 5]);
        const answers = await Promise.all(requests.map((request) => request()));
        for (const { status, body } of answers) assert.ok(status < 300 || (status === 409 && body.error.code === 'conflict'), `${url}: ${status} ${JSON.stringify(body)}`);
        const added = answers.filter((_, at) => at % 5 === 0 && _.status === 201).map(({ body }) => body.tool_pattern).sort();
        const rules = (await ask('GET', '/api/approval/rules')).body.filter(({ group_id }) => group_id === 'many');
        assert.deepEqual(rules.map(({ tool_pattern }) => tool_pattern).sort(), added, url);
        assert.equal((await ask('DELETE', '/api/permission-groups/many')).status, 204);
    });
});

test('a client that goes away in the middle holds up nobody who comes after', async () => {
    await everywhere(async (ask, url) => {
        for (let round = 0; round < 8; round++) {
            const gone = new AbortController();
            const many = Array.from({ length: 12 }, (_, at) => {
                const [path, body] = at % 2 ? ['/api/approval/rules', { tool_pattern: 'gone', action: 'deny' }] : ['/api/sessions/s/run_context', { system_prompt: [String(at)] }];
                const headers = { authorization: 'Bearer all', 'content-type': 'application/json' };
                return fetch(url + path, { method: 'POST', body: JSON.stringify(body), headers, signal: gone.signal }).catch(() => {});
            });
            setTimeout(() => gone.abort(), 4 * round);
            await Promise.all(many);
            assert.equal((await ask('POST', '/api/sessions/s/run_context', { system_prompt: ['after'] })).status, 200, url);
            const { status, body } = await ask('POST', '/api/approval/rules', { tool_pattern: 'after', action: 'deny' });
            assert.equal(status, 201, url);
            assert.equal((await ask('DELETE', `/api/approval/rules/${body.id}`)).status, 204);
        }
        for (const { id, tool_pattern } of (await ask('GET', '/api/approval/rules')).body) if (tool_pattern === 'gone') await ask('DELETE', `/api/approval/rules/${id}`);
    });
});

for (const kind of ['deno', 'bun']) {
    test(`the server of the README for ${kind} answers`, async (context) => {
        const server = await served(project, kind, RUNTIME);
        if (server === undefined) return context.skip(`there is no ${kind} for this machine`);
        try {
            const ask = client(server.url);
            assert.equal((await client(server.url, 'other')('GET', '/api/inbox')).status, 403);
            assert.equal((await ask('POST', '/api/sessions/s/run_context', { working_directory: '/x' })).body.working_directory, '/x');
            assert.equal((await ask('GET', '/api/sessions/s/run_context')).body.working_directory, '/x');
            assert.equal((await ask('POST', '/api/sessions/s/run_context', `"${'x'.repeat(1024 * 1024)}"`)).status, 413);
            assert.equal((await ask('HEAD', '/api/inbox')).status, 405);
            assert.equal((await ask('DELETE', '/api/approval/rules/4')).status, 204);
        } finally {
            await server.stop();
        }
    });
}

test('the runtime of the README asks who somebody is, for what they want', async () => {
    const [code] = await documented();
    const output = await project.node('--input-type=module', '--eval', `
        const asked = [];
        const userOf = async (request) => ({ may: (what) => (asked.push(what), request.headers.get('x-user') === 'ada') });
        ${code}
        const statuses = [];
        for (const user of ['ada', 'bob']) statuses.push((await runtime.fetch(new Request('http://h/api/inbox', { headers: { 'x-user': user } }))).status);
        process.stdout.write('\\n' + JSON.stringify({ asked, statuses }));
    `);
    assert.deepEqual(JSON.parse(output.split('\n').at(-1)), { asked: ['listApprovals', 'listApprovals'], statuses: [200, 403] });
});

test('the description in the package is valid OpenAPI 3.1, and the package exports it', async () => {
    const file = createRequire(path.join(project.folder, 'any.js')).resolve('runcontext/openapi.json');
    const text = await readFile(file, 'utf8');
    assert.equal(text, await readFile(path.join(packageFolder(), 'openapi.json'), 'utf8'));
    const validator = new Validator();
    const { valid, errors } = await validator.validate(JSON.parse(text));
    assert.ok(valid, JSON.stringify(errors));
    assert.equal(validator.version, '3.1');
    // The validator finds what is wrong.
    const broken = JSON.parse(text);
    delete broken.paths['/api/inbox'].get.responses;
    broken.paths['/api/inbox'].get.parameters = [{ name: 'x' }];
    assert.equal((await new Validator().validate(broken)).valid, false);
});
