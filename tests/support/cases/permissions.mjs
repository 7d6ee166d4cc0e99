// Permission groups and approval rules: what is listed, what is refused, who hears of it.

import { fails, ok, same } from './check.mjs';
import { handClock, rc } from './kit.mjs';
import { world } from './world.mjs';

const persistent = typeof indexedDB !== 'undefined';

/** A rule as it is listed, with these members of its own. */
const row = (id, tool_pattern, action, more = {}) => ({
    id, agent_id: null, source: null, tool_pattern, path_pattern: null, action, note: null, priority: 100, group_id: 'default', ...more,
});

/** The rules that are rows. */
const rows = async (at, group) => (await at.runtime.permissions.listRules(group)).filter((rule) => rule.id > 0);
const ids = async (runtime, group) => (await runtime.permissions.listRules(group)).map((rule) => rule.id);

export const cases = {
    async 'a new database has the group default, what is built in, and the seeded rules'() {
        const at = await world();
        const { permissions } = at.runtime;
        const [group, ...more] = await permissions.listGroups();
        same([group.id, typeof group.name, more.length], ['default', 'string', 0]);
        const [builtIn, ...rest] = await permissions.listRules();
        same([builtIn.id, builtIn.action, builtIn.locked, builtIn.tool_pattern], [-1, 'deny', true, '*']);
        ok(builtIn.note.includes('secrets'), builtIn.note);
        same(rest.map(({ id, tool_pattern, action, priority }) => [id, tool_pattern, action, priority]), [
            [1, 'execute_cmd', 'require', 100], [2, 'restart', 'require', 100], [3, 'load_skill', 'allow', 100], [4, '*', 'require', 1000],
        ]);
        same(rest, rc.seededRules());
        await at.close();
    },

    async 'rules are added, changed and deleted, and the answers are copies'() {
        const at = await world();
        const { permissions } = at.runtime;
        const given = { tool_pattern: 'write_*', action: 'deny', path_pattern: 'logs/*', locked: true, note: undefined };
        same(await permissions.addRule(given), 5);
        given.action = 'allow';
        const expected = row(5, 'write_*', 'deny', { path_pattern: 'logs/*', locked: true });
        const found = async () => (await rows(at)).find((rule) => rule.id === 5);
        same(await found(), expected);
        (await found()).action = 'allow';
        same(await found(), expected);
        await permissions.updateRule(5, { priority: 7, path_pattern: null, note: 'why', source: undefined });
        same(await found(), { ...expected, priority: 7, path_pattern: null, note: 'why' });
        same(await ids(at.runtime), [-1, 5, 1, 2, 3, 4]);
        await permissions.deleteRule(5);
        same(await found(), undefined);
        same(await permissions.addRule({ ...rc.seededRules()[0], priority: 0 }), 6);
        same(await ids(at.runtime), [-1, 6, 1, 2, 3, 4]);
        await at.close();
    },

    async 'groups are created, duplicated, renamed and deleted'() {
        const at = await world();
        const { permissions } = at.runtime;
        await permissions.createGroup({ id: 'cron', name: 'Cron', description: 'At night.' });
        await permissions.addRule({ tool_pattern: '@fs_write', action: 'deny', group_id: 'cron' });
        await permissions.duplicateGroup('cron', { id: 'copy', name: 'Copy' });
        same((await permissions.listGroups()).map(({ id, name, description }) => [id, name, description]).slice(0, 2), [
            ['copy', 'Copy', 'At night.'], ['cron', 'Cron', 'At night.'],
        ]);
        same(await rows(at, 'copy'), [row(6, '@fs_write', 'deny', { group_id: 'copy' })]);
        await permissions.updateGroup('copy', { name: 'Other' });
        same((await permissions.listGroups())[0], { id: 'copy', name: 'Other' });
        await permissions.deleteGroup('copy');
        await fails(() => permissions.listRules('copy'), 'not_found');
        same(await ids(at.runtime), [-1, 5, 1, 2, 3, 4]);
        await at.close();
    },

    async 'what must not be is refused with its code and its field, and changes nothing'() {
        const at = await world();
        const { permissions } = at.runtime;
        const before = await at.stored();
        const rule = { tool_pattern: 't', action: 'deny' };
        for (const [change, field] of [
            [{ action: 'ask' }, 'rule.action'], [{ action: undefined }, 'rule.action'], [{ tool_pattern: '' }, 'rule.tool_pattern'],
            [{ tool_pattern: '@' }, 'rule.tool_pattern'], [{ priority: -1 }, 'rule.priority'], [{ priority: 1_000_001 }, 'rule.priority'],
            [{ priority: 0.5 }, 'rule.priority'], [{ action: 'allow', locked: true }, 'rule.locked'], [{ group_id: 7 }, 'rule.group_id'],
            [{ note: 'half \ud83d' }, 'rule.note'],
        ]) {
            const error = await fails(() => permissions.addRule({ ...rule, ...change }), 'invalid_argument');
            same(error.data.field, field, error.message);
        }
        for (const [work, field] of [
            [() => permissions.createGroup({ id: 'a b', name: 'n' }), 'group.id'], [() => permissions.createGroup({ id: 'a' }), 'group.name'],
            [() => permissions.duplicateGroup('default', { id: 'a' }), 'to.name'], [() => permissions.updateGroup('default', { name: 7 }), 'group.name'],
            [() => permissions.updateRule(1, { id: 2 }), 'rule.id'], [() => permissions.updateRule('1', {}), 'id'],
            [() => permissions.deleteRule(1.5), 'id'], [() => permissions.deleteGroup(5), 'id'],
        ]) {
            const error = await fails(work, 'invalid_argument');
            same(error.data.field, field, error.message);
        }
        await fails(() => permissions.addRule({ ...rule, group_id: 'nobody' }), 'not_found');
        await fails(() => permissions.updateRule(99, {}), 'not_found');
        await fails(() => permissions.deleteRule(99), 'not_found');
        await fails(() => permissions.createGroup({ id: 'default', name: 'n' }), 'conflict');
        await fails(() => permissions.addRule({ tool_pattern: '*', action: 'allow' }), 'rule_conflict');
        await fails(() => permissions.deleteGroup('default'), 'group_protected');
        await fails(() => permissions.updateRule(-1, { action: 'require' }), 'group_protected');
        await fails(() => permissions.deleteRule(-1), 'group_protected');
        same(await at.stored(), before);
        await at.close();
    },

    async 'what is odd about rules is told, by the store and by a compiled policy'() {
        const at = await world();
        const { permissions } = at.runtime;
        same(await permissions.lint(), []);
        await permissions.createGroup({ id: 'g', name: 'G' });
        await permissions.addRule({ tool_pattern: 'read*', action: 'allow', group_id: 'g' });
        await permissions.addRule({ tool_pattern: 'read_all', action: 'deny', path_pattern: '*.env', group_id: 'g' });
        const found = await permissions.lint('g');
        same(found.map(({ code, rules }) => [code, rules]), [['wide_prefix', [5]], ['shadowed', [6, 5]], ['literal_star', [6]]]);
        ok(found.every(({ message }) => typeof message === 'string' && message.length > 20), 'it says why');
        same(await permissions.lint(), found);
        same(await permissions.lint('default'), []);
        await fails(() => permissions.lint('nobody'), 'not_found');
        same(rc.compilePolicy([row(1, '*', 'allow'), row(2, '*', 'deny')]).lint().map(({ code, rules }) => [code, rules]), [
            ['conflicting_catch_alls', [2, 1]],
        ]);
        await at.close();
    },

    async 'listeners hear of changes, and of nothing that was refused'() {
        const at = await world();
        const { permissions } = at.runtime;
        const heard = [];
        at.runtime.subscribe((event) => heard.push(event));
        await permissions.addRule({ tool_pattern: 't', action: 'deny' });
        await permissions.listRules();
        await fails(() => permissions.deleteRule(99), 'not_found');
        same(heard.map((event) => ({ ...event })), [{ type: 'permissions-changed' }]);
        await at.close();
    },

    async 'many rules that are added at once get an id each'() {
        const at = await world();
        const { permissions } = at.runtime;
        const given = await Promise.all(Array.from({ length: 20 }, () => permissions.addRule({ tool_pattern: 't', action: 'deny' })));
        same(given, Array.from({ length: 20 }, (_, number) => number + 5));
        same((await rows(at)).length, 24);
        await at.close();
    },

    async 'a second runtime sees every change at once'() {
        const at = await world();
        if (!persistent) return await at.close();
        const other = await at.another({ now: handClock(1) });
        await at.runtime.permissions.addRule({ tool_pattern: 'read*', action: 'allow', priority: 0 });
        same(await ids(other), [-1, 5, 1, 2, 3, 4]);
        same((await other.permissions.lint()).map(({ code }) => code), ['wide_prefix']);
        await other.permissions.deleteRule(5);
        same(await ids(at.runtime), [-1, 1, 2, 3, 4]);
        same(await at.runtime.permissions.lint(), []);
        await other.close();
        await at.close();
    },

    async 'a closed runtime says so'() {
        const at = await world();
        const { permissions } = at.runtime;
        await at.close();
        await fails(() => permissions.listRules(), 'disposed');
        await fails(() => permissions.addRule({ tool_pattern: 't', action: 'deny' }), 'disposed');
    },
};
