// The package in pages of a real browser: one server whose origin outlives the browsers, and pages that hold the
// package as `rc`, the page's side of the tests as `kit`, and talk in text that keeps every code unit.

import path from 'node:path';
import { fileURLToPath } from 'node:url';

import { fromText } from './cases/kit.mjs';
import { packageFolder } from './project.mjs';
import { serve } from './server.mjs';

const HTML = '<!doctype html><meta charset="utf-8"><title>runcontext</title>';

/** The server: the package at `/pkg/`, the page's side of the tests at `/cases/`, vectors and fixtures at `/vectors/` and `/fixtures/`. */
export function servePackage(options = {}) {
    return serve({
        folders: {
            '/pkg/': path.resolve(packageFolder()),
            '/cases/': fileURLToPath(new URL('./cases', import.meta.url)),
            '/vectors/': fileURLToPath(new URL('../vectors', import.meta.url)),
            '/fixtures/': fileURLToPath(new URL('../fixtures', import.meta.url)),
        },
        pages: { '/': HTML },
        ...options,
    });
}

/**
 * A page with the package loaded.
 *
 * @returns {Promise<import('playwright-core').Page & { run(work: Function, ...args: unknown[]): Promise<any>, unhandled(): Promise<string[]> }>}
 */
export async function openPage(browser, server) {
    const page = await browser.newPage();
    await page.goto(`${server.url}/`);
    await page.evaluate(async () => {
        window.unhandled = [];
        window.addEventListener('unhandledrejection', (event) => window.unhandled.push(String(event.reason)));
        window.rc = await import('/pkg/browser.js');
        window.kit = await import('/cases/kit.mjs');
        await window.rc.init();
        window.kit.use(window.rc);
    });
    /** Runs a function in the page, with arguments that JSON can hold, and gives what it returned. */
    page.run = async (work, ...args) => {
        const source = args.map((arg) => JSON.stringify(arg) ?? 'undefined').join(', ');
        return fromText(await page.evaluate(`(async () => kit.toText(await (${work})(${source})))()`));
    };
    /** Rejections that nobody handled, and errors that nobody caught. */
    page.unhandled = async () => {
        // A rejection is reported one task after it happened.
        const found = await page.evaluate(async () => {
            for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setTimeout(resolve));
            return window.unhandled;
        });
        return [...found, ...page.uncaught];
    };
    return page;
}

/** The code units of a text. */
export const units = (text) => Array.from({ length: text.length }, (_, at) => text.charCodeAt(at));
