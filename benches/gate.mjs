// How long one decision takes in Node, with 100 rules and with 10,000 (one in a hundred speaks of the call), beside Cedar
// with 100 policies, parsed before. Ratios within one run: absolute times say more of the machine. `cargo xtask bench`.

import { createRequire } from 'node:module';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const folder = process.env.RUNCONTEXT_PKG ?? path.join(import.meta.dirname, '..', 'pkg');
const { compilePolicy, pathsToResolve } = await import(pathToFileURL(path.join(folder, 'node.js')).href);
const cedar = createRequire(import.meta.url)('@cedar-policy/cedar-wasm/nodejs');

const rules = (count) =>
    Array.from({ length: count }, (_, at) => ({
        id: at + 1, tool_pattern: at % 100 === 50 ? 'write_file' : `tool_${at}`, path_pattern: `dir_${at}/*`,
        action: at % 3 === 0 ? 'require' : 'allow', priority: 100, group_id: 'default',
    }));

const tool = { name: 'write_file', access: 'write', paths: [{ argument: '/path', access: 'write' }] };
const place = { tool, cwd: '/ws/app', workspaceRoot: '/ws', preset: 'read-only' };

/** A host that answers at once. */
const canonical = (file) => (file.startsWith('/') ? file : `/ws/app/${file}`);

/** Another call each time, as it would be. */
function input(number) {
    const call = { toolCallId: `c${number}`, toolName: 'write_file', arguments: { path: `dir_50/${number % 1000}.txt`, content: 'x' } };
    const asked = { ...place, call, now: number };
    const resolved = pathsToResolve(asked).map(({ base, path }) => ({ base, path, result: { canonical: canonical(path) } }));
    return { ...asked, resolved };
}
const inputs = Array.from({ length: 1000 }, (_, number) => input(number));

const others = inputs.map((one) => ({ ...one, agentId: 'other' }));

/**
 * Microseconds of each, the best of a hundred short rounds: whatever else the machine does only makes it slower. In turns, so that
 * what goes on for seconds is in the way of all of them. `works` are pairs: how often in a round, and what.
 */
function time(...works) {
    const best = works.map(() => Infinity);
    for (const [times, once] of works) for (let i = 0; i < times * 20; i++) once(i);
    for (let round = 0; round < 100; round++) {
        works.forEach(([times, once], at) => {
            const start = performance.now();
            for (let i = 0; i < times; i++) once(i);
            best[at] = Math.min(best[at], ((performance.now() - start) * 1000) / times);
        });
    }
    return best;
}

let sink;
const compiled = [100, 10_000].map((count) => [count, compilePolicy(rules(count))]);
for (const [count, policy] of compiled) {
    const [traced, other] = time(
        [100, (i) => (sink = policy.decide(inputs[i % 1000]).trace)],
        [100, (i) => (sink = policy.decide(i % 2 ? inputs[i % 1000] : others[i % 1000]).outcome)],
    );
    console.log(`Node, ${count} rules: ${traced.toFixed(2)} us a decision with its trace`);
    console.log(`Node, ${count} rules: ${other.toFixed(2)} us where each input is of another session than the one before`);
}
const [asked] = time([100, (i) => (sink = pathsToResolve(inputs[i % 1000]))]);
console.log(`Node, which paths the host has to resolve: ${asked.toFixed(2)} us`);

const policies = Array.from({ length: 100 }, (_, at) => {
    const action = at === 50 ? 'write' : String(at);
    return `${at % 3 === 0 ? 'forbid' : 'permit'}(principal, action == Action::"${action}", resource) when { resource.path like "/ws/app/dir_${at}/*" };`;
});
const parsed = cedar.preparsePolicySet('bench', { staticPolicies: policies.join('\n') });
if (parsed.type !== 'success') throw new Error(JSON.stringify(parsed));
const request = {
    principal: { type: 'User', id: 'a' }, action: { type: 'Action', id: 'write' }, resource: { type: 'File', id: 'f' }, context: {},
    preparsedPolicySetId: 'bench', entities: [{ uid: { type: 'File', id: 'f' }, attrs: { path: '/ws/app/dir_50/a.txt' }, parents: [] }],
};
const [few, many, theirs] = time(
    ...compiled.map(([, policy]) => [2_000, (i) => (sink = policy.decide(inputs[i % 1000]).outcome)]),
    [50, () => (sink = cedar.statefulIsAuthorized(request).response.decision)],
);
if (sink !== 'allow') throw new Error(`Cedar decided ${sink}`);
console.log(`Node, 100 rules: ${few.toFixed(2)} us a decision; 10,000 rules: ${many.toFixed(2)} us`);
console.log(`Node, 10,000 rules against 100: ${(many / few).toFixed(2)} (at most 3)`);
console.log(`Node, Cedar with 100 policies: ${theirs.toFixed(2)} us a decision`);
console.log(`Node, our decisions in the time of one of Cedar's: ${(theirs / few).toFixed(1)} (at least 50 is the goal)`);
