// The adapter for Durable Objects in a real workerd, with SQLite storage on disk: the suite that every adapter has to pass,
// and what happens to calls when an object is lost, full or busy.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { installed } from '../support/project.mjs';
import { workers } from '../support/workerd.mjs';

const CLASSES = ['SessionObject', 'SharedObject', 'DirectoryObject'];

/** Runs the case that it is asked for, in a space of its own. */
const WORKER = `
import { conformance } from 'runcontext/storage/conformance';
import { durableObjects } from 'runcontext/storage/durable-objects';

export { DirectoryObject, SessionObject, SharedObject } from 'runcontext/storage/durable-objects';

export default {
    async fetch(request, env) {
        const { name } = await request.json();
        const space = crypto.randomUUID();
        const open = () => durableObjects({ sessions: env.SessionObject, shared: env.SharedObject, directory: env.DirectoryObject, space });
        const { run } = conformance({ open, reopen: open }).find((one) => one.name === name);
        return Response.json(await run().then(() => 'right', (error) => error.stack));
    },
};
`;

const project = await installed();
const { conformance } = await project.import('runcontext/storage/conformance');
await project.remove();

let made, workerd;
before(async () => {
    made = await workers({ main: WORKER }, CLASSES);
    workerd = await made.start();
});
after(async () => {
    await workerd?.kill();
    await made?.remove();
});

for (const { name } of conformance({ open() {}, reopen() {} })) {
    test(`on Durable Objects: ${name}`, async () => {
        assert.equal(await workerd.ask('main', '/', { name }), 'right');
    });
}
