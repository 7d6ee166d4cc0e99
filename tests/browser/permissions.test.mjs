// Two pages of one origin, and no channel between them: what one changes about the rules, the other goes by at once.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { launch } from '../support/chromium.mjs';
import { openPage, servePackage } from '../support/page.mjs';

let browser, server;
before(async () => {
    browser = await launch();
    server = await servePackage();
});
after(async () => {
    await browser?.close();
    await server?.close();
});

/** Two pages with a runtime each on one database. */
async function twoPages(name) {
    const pages = await Promise.all([openPage(browser, server), openPage(browser, server)]);
    const open = async (name) => {
        delete globalThis.BroadcastChannel;
        window.runtime = await rc.Runtime.open({ storage: { kind: 'indexeddb', name } });
        return typeof BroadcastChannel;
    };
    // At the same time, so that both find no group.
    const channels = await Promise.all(pages.map((page) => page.run(open, name)));
    assert.deepEqual(channels, ['undefined', 'undefined']);
    return pages;
}

const ids = async (page) => await page.run(async () => (await runtime.permissions.listRules()).map(({ id }) => id));
/** What lint says comes from the compiled policy. */
const odd = async (page) => await page.run(async () => (await runtime.permissions.lint()).map(({ code, rules }) => [code, rules]));

test('two pages that open at the same time seed once, and see each other\'s rules at once', async () => {
    const [one, two] = await twoPages('two-pages');
    assert.deepEqual(await Promise.all([one, two].map(ids)), [[-1, 1, 2, 3, 4], [-1, 1, 2, 3, 4]]);
    assert.deepEqual(await odd(two), []);
    for (let round = 0; round < 5; round++) {
        const id = 5 + round;
        const given = await one.run(() => runtime.permissions.addRule({ tool_pattern: 'read*', action: 'deny', priority: 0 }));
        assert.equal(given, id);
        assert.deepEqual(await ids(two), [-1, id, 1, 2, 3, 4]);
        assert.deepEqual(await odd(two), [['wide_prefix', [id]]]);
        await two.run((id) => runtime.permissions.deleteRule(id), id);
        assert.deepEqual(await ids(one), [-1, 1, 2, 3, 4]);
        assert.deepEqual(await odd(one), []);
    }
    for (const page of [one, two]) assert.deepEqual(await page.unhandled(), []);
    await Promise.all([one.close(), two.close()]);
});

test('calls of a turn ask where another page deleted the session and made one with its id and counters', async () => {
    const [one, two] = await twoPages('made-again');
    await one.run(() => runtime.permissions.addRule({ tool_pattern: 'look', action: 'allow' }));
    const decide = async () => {
        const { outcome, reason } = await turn.gate({ toolCallId: 'c', toolName: 'look', arguments: {} });
        return [outcome, reason];
    };
    const begin = async () => {
        const session = await runtime.createSession({ id: 's', permissionPreset: 'danger-full-access' });
        window.turn = await session.begin('Hello');
        await turn.request();
        await turn.dispatched();
        await turn.append(kit.calling(['c', 'look', {}]));
        const [[, { counters }]] = (await kit.dump('made-again')).chat_sessions;
        return counters;
    };
    const counters = await one.run(begin);
    assert.deepEqual(await one.run(decide), ['allow', 'rule']);
    await two.run(() => runtime.deleteSession('s'));
    assert.deepEqual(await two.run(begin), counters);
    assert.deepEqual(await one.run(decide), ['require', 'policy_unverified']);
    assert.deepEqual(await two.run(decide), ['allow', 'rule']);
    // Nor is anything of it saved there.
    const { saved, saveError } = await one.run(() => turn.finish());
    assert.deepEqual([saved, saveError.code], [false, 'conflict']);
    for (const page of [one, two]) assert.deepEqual(await page.unhandled(), []);
    await Promise.all([one.close(), two.close()]);
});

test('two pages that add rules at the same time lose none, and give no id twice', async () => {
    const [one, two] = await twoPages('two-writers');
    const add = async () => {
        const adding = Array.from({ length: 25 }, () => runtime.permissions.addRule({ tool_pattern: 't', action: 'deny' }));
        return await Promise.all(adding);
    };
    const given = (await Promise.all([one.run(add), two.run(add)])).flat().sort((a, b) => a - b);
    assert.deepEqual(given, Array.from({ length: 50 }, (_, number) => number + 5));
    const listed = await ids(one);
    assert.equal(listed.length, 55);
    assert.deepEqual(await ids(two), listed);
    await Promise.all([one.close(), two.close()]);
});

test('of two pages that give one group opposite catch-alls, one is refused', async () => {
    const [one, two] = await twoPages('two-minds');
    await one.run(() => runtime.permissions.createGroup({ id: 'g', name: 'G' }));
    for (let round = 0; round < 10; round++) {
        const add = async (action) => {
            const outcome = await kit.outcome(() => runtime.permissions.addRule({ tool_pattern: '*', action, group_id: 'g' }));
            return outcome.rejected?.code ?? outcome.gave;
        };
        const outcomes = await Promise.all([one.run(add, 'allow'), two.run(add, 'deny')]);
        const kept = outcomes.find((outcome) => typeof outcome === 'number');
        assert.deepEqual(outcomes.filter((outcome) => outcome !== kept), ['rule_conflict']);
        await two.run((id) => runtime.permissions.deleteRule(id), kept);
    }
    await Promise.all([one.close(), two.close()]);
});
