// Projects, tickets and jobs on real IndexedDB: what is there after a reload, and two pages that change one row.

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

/** A page with a runtime on a database. */
async function aPage(name) {
    const page = await openPage(browser, server);
    await page.run(async (name) => {
        delete globalThis.BroadcastChannel;
        window.runtime = await rc.Runtime.open({ storage: { kind: 'indexeddb', name }, host: { cwd: '/w', dataDir: '/data/ann' } });
    }, name);
    return page;
}

test('rows and what their sessions run as are there after the page that made them is gone', async () => {
    const first = await aPage('after a reload');
    await first.run(async () => {
        const { projects, jobs } = runtime;
        await projects.createProject({ id: 'p', name: 'Shop', path: '/srv/shop', owner: 'ann' });
        await projects.createTicket({ id: 't', project_id: 'p', title: 'Prices', run_context: { allow_fs_writes: ['logs/*'], colour: 'red' } });
        await jobs.createJob({ id: 'j', name: 'Nightly', run_context: { security_group: 'cron' } });
        await runtime.createSession({ id: 's', ticketId: 't' });
        await runtime.createSession({ id: 'n', jobId: 'j' });
    });
    await first.close();
    const second = await aPage('after a reload');
    const found = await second.run(async () => {
        const { projects, jobs } = runtime;
        const [{ name, owner }] = await projects.listProjects();
        const [{ title }] = await projects.listTickets('p');
        const { colour } = await projects.getTicketRunContext('p', 't');
        const { security_group: group } = await jobs.getJobRunContext('j');
        const { runContext, state } = await runtime.openSession('s');
        const night = (await runtime.openSession('n')).runContext.security_group;
        return { name, owner, title, colour, group, runContext, unknownFields: state.unknownFields, night };
    });
    assert.deepEqual(found, {
        name: 'Shop', owner: 'ann', title: 'Prices', colour: 'red', group: 'cron', night: 'cron', unknownFields: ['runContext.colour'],
        runContext: {
            security_group: null, allow_fs_reads: [], allow_fs_writes: ['/srv/shop', '/data/ann', 'logs/*'], working_directory: '/srv/shop', colour: 'red',
            system_prompt: ['Project: Shop\nTicket: Prices\nData directory: /data/ann (writable; for what belongs to the user and not to the project)'],
        },
    });
    assert.deepEqual(await second.unhandled(), []);
    await second.close();
});

test('two pages that change columns of one row at the same time lose none', async () => {
    const pages = await Promise.all([aPage('two writers'), aPage('two writers')]);
    const [one, two] = pages;
    await one.run(() => runtime.jobs.createJob({ id: 'j', name: 'Nightly' }));
    const write = async (who) => {
        const columns = Array.from({ length: 12 }, (_, at) => runtime.jobs.updateJob('j', { [`${who}${at}`]: at }));
        await Promise.all([...columns, runtime.jobs.setJobRunContext('j', { security_group: who, system_prompt: [who] })]);
    };
    await Promise.all([one.run(write, 'a'), two.run(write, 'b')]);
    const { run_context: context, ...row } = await one.run(() => runtime.jobs.getJob('j'));
    const columns = ['a', 'b'].flatMap((who) => Array.from({ length: 12 }, (_, at) => [`${who}${at}`, at]));
    assert.deepEqual(row, { id: 'j', name: 'Nightly', ...Object.fromEntries(columns) });
    // One of the two, whole.
    assert.deepEqual(context.system_prompt, [context.security_group]);
    assert.ok(['a', 'b'].includes(context.security_group));
    for (const page of pages) assert.deepEqual(await page.unhandled(), []);
    await Promise.all(pages.map((page) => page.close()));
});
