// Many clients at once on the worker of `examples/worker`, for a while: 200 for a minute with `--deep`.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';

import { client } from '../support/http.mjs';
import { workers } from '../support/workerd.mjs';

const [CLIENTS, SECONDS] = process.env.RUNCONTEXT_DEEP ? [200, 60] : [20, 6];
const CLASSES = ['ChatObject', 'DeskObject', 'SessionObject', 'SharedObject', 'DirectoryObject'];

/** Megabytes that a process has. */
async function memory(pid) {
    const [, kilobytes] = /^VmRSS:\s+(\d+) kB$/m.exec(await readFile(`/proc/${pid}/status`, 'utf8'));
    return Math.round(kilobytes / 1024);
}

test(`${CLIENTS} clients for ${SECONDS} seconds: no error, nothing lost, and the memory stays`, { skip: process.platform !== 'linux' && 'reads /proc' }, async (context) => {
    const source = await readFile(new URL('../../examples/worker/worker.js', import.meta.url), 'utf8');
    const made = await workers({ worker: source }, { classes: CLASSES, texts: { TOKEN: 'all', READER: 'look' } });
    const workerd = await made.start();
    try {
        const url = workerd.url('worker');
        const ask = client(url);
        const counts = {};
        const times = [];
        // Somebody else keeps changing the rules: who is told so asks again.
        const done = async (method, at, body) => {
            for (;;) {
                const begun = performance.now();
                const { status, body: answer } = await ask(method, at, body);
                times.push(performance.now() - begun);
                counts[status] = (counts[status] ?? 0) + 1;
                if (status < 300) return answer;
                assert.ok(status === 409 && answer.error.code === 'conflict', `${method} ${at}: ${status} ${JSON.stringify(answer)}`);
            }
        };
        const names = Array.from({ length: CLIENTS }, (_, number) => `soak${number}`);
        for (const id of names) {
            const chat = await fetch(`${url}/chat/${id}`, { method: 'POST', body: 'Hello', headers: { authorization: 'Bearer all' } });
            assert.match(await chat.text(), /"turn-end"/);
            await done('POST', '/api/permission-groups', { id, name: id });
        }
        const begun = Date.now();
        const goesOn = () => Date.now() - begun < SECONDS * 1000;
        const megabytes = [];
        const watch = setInterval(async () => megabytes.push(await memory(workerd.pid)), 1000);
        const work = names.map(async (id) => {
            const rules = [];
            let set;
            for (let round = 0; goesOn(); round++) {
                set = { security_group: id, system_prompt: [`${id} ${round}`], allow_fs_writes: [], allow_fs_reads: [], working_directory: null };
                assert.deepEqual(await done('POST', `/api/sessions/${id}/run_context`, set), set);
                assert.deepEqual(await done('GET', `/api/sessions/${id}/run_context`), set);
                if (round % 20 === 0) rules.push((await done('POST', '/api/approval/rules', { group_id: id, tool_pattern: `t${round}`, action: 'deny' })).id);
                if (round % 20 === 10) await done('DELETE', `/api/approval/rules/${rules.pop()}`);
            }
            return { id, set, rules };
        });
        const results = await Promise.race([Promise.all(work), workerd.ends]).finally(() => clearInterval(watch));
        const stored = await done('GET', '/api/approval/rules');
        for (const { id, set, rules } of results) {
            assert.deepEqual(stored.filter(({ group_id }) => group_id === id).map((rule) => rule.id), rules.sort((a, b) => a - b), id);
            assert.deepEqual(await done('GET', `/api/sessions/${id}/run_context`), set);
        }
        times.sort((a, b) => a - b);
        const at = (part) => Math.round(times[Math.floor(part * (times.length - 1))]);
        context.diagnostic(`${times.length} requests in ${SECONDS} s, by status ${JSON.stringify(counts)}`);
        context.diagnostic(`milliseconds: half within ${at(0.5)}, 99 of 100 within ${at(0.99)}, all within ${at(1)}`);
        context.diagnostic(`megabytes of workerd, each second: ${megabytes.join(' ')}`);
        assert.deepEqual(Object.keys(counts).filter((status) => !['200', '201', '204', '409'].includes(status)), []);
        // After the first third nothing more is taken for good.
        const third = Math.ceil(megabytes.length / 3);
        const most = (from, to) => Math.max(...megabytes.slice(from, to));
        assert.ok(most(2 * third) <= 1.25 * most(third, 2 * third), megabytes.join(' '));
    } finally {
        await workerd.kill();
        await made.remove();
    }
});
