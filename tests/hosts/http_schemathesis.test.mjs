// Schemathesis, which knows the routes by `openapi.json` alone, on the server of the README for Node and on the worker of
// `examples/worker`: no answer but those that are described, and from every operation one that went well.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';

import { client, served, WORK, WORKS } from '../support/http.mjs';
import { installed, packageFolder } from '../support/project.mjs';
import { workers } from '../support/workerd.mjs';

const CLASSES = ['ChatObject', 'DeskObject', 'SessionObject', 'SharedObject', 'DirectoryObject'];
const program = process.env.RUNCONTEXT_SCHEMATHESIS;
const examples = process.env.RUNCONTEXT_DEEP ? 500 : 25;
/** What it looks at in every answer. */
const CHECKS = [
    'not_a_server_error', 'status_code_conformance', 'content_type_conformance', 'response_headers_conformance', 'response_schema_conformance',
    'unsupported_method', 'allow_header_conformance', 'use_after_free',
];
/** So many approvals wait, and so many groups and rules are there to be changed: it deletes what it finds. */
const COUNT = 24;
const ROWS = 120;
const upTo = (count) => Array.from({ length: count }, (_, number) => number);
/** Sessions of which each has a call that waits. */
const RUNTIME = `
import { Runtime } from 'runcontext';
const runtime = await Runtime.open({ storage: 'memory', tools: [{ name: 'clock', access: 'none', category: 'time' }], authorize: () => true });
const sessions = [];
for (let number = 0; number < ${COUNT}; number++) {
    const session = await runtime.createSession({ id: 's' + number });
    const turn = await session.begin('Hello');
    await turn.request();
    await turn.dispatched();
    await turn.append({ role: 'assistant', content: [{ type: 'toolCall', id: 'c', name: 'clock', arguments: {} }], stopReason: 'toolUse' });
    await turn.gate({ toolCallId: 'c', toolName: 'clock', arguments: {} });
    sessions.push(session);
}
${WORK}
`;

let folder;
before(async () => {
    folder = await mkdtemp(path.join(os.tmpdir(), 'runcontext-schemathesis-'));
});
after(() => rm(folder, { recursive: true, force: true }));

/** Runs it on a server whose calls wait, and gives how many answers of each status each operation had. */
async function run(url, methods = ['DELETE', 'GET', 'OPTIONS', 'PATCH', 'POST', 'PUT', 'TRACE']) {
    const ask = client(url);
    const groups = upTo(ROWS).map((number) => `g${number}`);
    for (const id of groups) assert.equal((await ask('POST', '/api/permission-groups', { id, name: id })).status, 201);
    const rules = [];
    for (const tool_pattern of groups) rules.push((await ask('POST', '/api/approval/rules', { tool_pattern, action: 'deny' })).body.id);
    const inbox = (await ask('GET', '/api/inbox')).body;
    assert.equal(inbox.length, COUNT);
    // Ids that are there; without them nearly every answer would be that nothing is.
    const known = {
        sessions: inbox.map(({ session_id }) => session_id), groups, rules: rules.map(String), approvals: inbox.map(({ request_id }) => request_id),
        projects: ['p'], tickets: ['t'], jobs: ['j'],
    };
    const dictionaries = Object.entries(known).map(([name, values]) => `[dictionaries.${name}]\nvalues = ${JSON.stringify(values)}\n`);
    const ticket = '/api/projects/{project_id}/tickets/{ticket_id}/run_context';
    const bound = [
        ['/api/projects/{id}/run_context', { id: 'projects' }], [ticket, { project_id: 'projects', ticket_id: 'tickets' }], ['/api/jobs/{id}/run_context', { id: 'jobs' }],
        ['/api/sessions/{id}/run_context', { id: 'sessions' }], ['/api/approval/rules/{id}', { id: 'rules' }], ['/api/permission-groups/{id}', { id: 'groups' }],
        ['/api/permission-groups/{id}/duplicate', { id: 'groups' }], ['/api/inbox/approvals/{request_id}/resolve', { request_id: 'approvals' }],
    ].map(([at, ids]) => {
        const values = Object.entries(ids).map(([name, from]) => `"path.${name}" = { dictionary = "${from}", probability = 0.8 }`);
        return `[[operations]]\ninclude-path = "${at}"\nparameters = { ${values.join(', ')} }\n`;
    });
    const config = path.join(folder, 'schemathesis.toml');
    const others = `[phases.coverage]\nunexpected-methods = ${JSON.stringify(methods)}\n`;
    await writeFile(config, [...dictionaries, ...bound, others].join('\n'));
    const report = path.join(folder, 'report.har');
    const description = path.join(packageFolder(), 'openapi.json');
    const args = [
        '--no-color', '--config-file', config, 'run', description, '--url', url, '--checks', CHECKS.join(','), '--max-examples', String(examples), '--seed', '1',
        '--header', 'Authorization: Bearer all', '--request-timeout', '30', '--report-har-path', report, '--warnings', 'off',
    ];
    const said = await new Promise((resolve) => {
        execFile(program, args, { cwd: folder, maxBuffer: 64 * 1024 * 1024 }, (error, stdout, stderr) => resolve({ failed: error !== null, text: stdout + stderr }));
    });
    assert.equal(said.failed, false, said.text.slice(-8000));
    const operations = Object.entries(JSON.parse(await readFile(description, 'utf8')).paths).flatMap(([at, methods]) =>
        Object.entries(methods).map(([method, { operationId }]) => ({
            method: method.toUpperCase(), pattern: new RegExp(`^${at.replace(/\{\w+\}/g, '[^/]+')}$`), name: operationId, statuses: {},
        })),
    );
    for (const { request, response } of JSON.parse(await readFile(report, 'utf8')).log.entries) {
        const at = request.url.slice(url.length).split('?')[0];
        const operation = operations.find(({ method, pattern }) => method === request.method && pattern.test(at));
        if (operation) operation.statuses[response.status] = (operation.statuses[response.status] ?? 0) + 1;
    }
    return operations;
}

function check(operations, context) {
    for (const { name, statuses } of operations) {
        context.diagnostic(`${name} ${JSON.stringify(statuses)}`);
        assert.ok(Object.keys(statuses).some((status) => status.startsWith('2')), `${name}: ${JSON.stringify(statuses)}`);
        assert.deepEqual(Object.keys(statuses).filter((status) => Number(status) >= 500), [], name);
    }
}

const skip = program ? false : 'there is no schemathesis: it needs python3';

test('on Node every answer is as described, and every operation has one that went well', { skip }, async (context) => {
    const project = await installed();
    const server = await served(project, 'node', RUNTIME);
    try {
        // `Request` of Node takes no TRACE: the server answers for it, and says less.
        check(await run(server.url, ['DELETE', 'GET', 'OPTIONS', 'PATCH', 'POST', 'PUT']), context);
    } finally {
        await server.stop();
        await project.remove();
    }
});

test('on the worker every answer is as described, and every operation has one that went well', { skip }, async (context) => {
    const source = await readFile(new URL('../../examples/worker/worker.js', import.meta.url), 'utf8');
    const made = await workers({ worker: source, works: WORKS }, { classes: CLASSES, texts: { TOKEN: 'all', READER: 'look' } });
    const workerd = await made.start();
    const url = workerd.url('worker');
    const stop = new AbortController();
    try {
        await workerd.ask('works', '/');
        // Each waits for an answer in its turn.
        const turns = upTo(COUNT).map(async (number) => {
            const asks = { method: 'POST', body: 'call clock {}', headers: { authorization: 'Bearer all' }, signal: stop.signal };
            const reader = (await fetch(`${url}/chat/s${number}`, asks)).body.pipeThrough(new TextDecoderStream()).getReader();
            for (let said = ''; !said.includes('approval-requested'); ) said += (await reader.read()).value;
            return reader;
        });
        await Promise.all(turns);
        check(await run(url), context);
    } finally {
        stop.abort();
        await workerd.kill();
        await made.remove();
    }
});
