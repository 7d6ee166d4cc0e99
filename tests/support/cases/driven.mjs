// The page's side of a browser that is steered over WebDriver: the package as `rc`, the page's side of the tests as `kit`,
// and a way to run what a test sends as text. WebDriver's own scripts run in another realm than the page in Firefox, where
// no object is a plain one.

import * as rc from '/pkg/browser.js';

import * as kit from './kit.mjs';

window.unhandled = [];
window.addEventListener('unhandledrejection', (event) => window.unhandled.push(String(event.reason)));
window.addEventListener('error', (event) => window.unhandled.push(event.message));
Object.assign(window, { rc, kit });
kit.use(rc);
const loaded = rc.init();

/** Runs the source of an expression; the answer, or the error, is text. */
window.answer = async (source) => {
    try {
        await loaded;
        return { gave: kit.toText(await (0, eval)(source)) };
    } catch (error) {
        return { failed: `${error}\n${error?.stack}` };
    }
};
