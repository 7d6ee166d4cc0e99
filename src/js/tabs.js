// Other tabs and workers on the same database: locks that say who runs a turn, and a channel on which they talk. Where the
// browser has neither, nothing is known and nobody is told.

/** Which of the locks are held here, by name: who is in the same page is not elsewhere. @type {string[]} */
const own = [];

/** Says who speaks: one page does not hear itself, however many runtimes it has. */
const page = `${Math.random()} `;

/** What has to end when the module fails: nobody in it is left to end it. @type {Set<() => void>} */
const ends = new Set();

/** Lets go of every lock and channel. */
export function letGo() {
    for (const end of ends) end();
}

/**
 * Holds a lock, beside others who do: it says that a turn runs, and excludes nobody. Resolves to what lets go of it, once it is
 * held or cannot be.
 *
 * @param {string} name
 * @returns {Promise<() => void>}
 */
export function hold(name) {
    return new Promise((resolve) => {
        /** @type {() => void} */
        let end = () => {};
        const over = /** @type {Promise<void>} */ (new Promise((ended) => {
            end = () => {
                ends.delete(end);
                own.splice(own.indexOf(name), 1);
                ended();
            };
        }));
        ends.add(end);
        const held = () => {
            resolve(end);
            return over;
        };
        own.push(name);
        try {
            navigator.locks.request(name, { mode: 'shared', ifAvailable: true }, held).catch(held);
        } catch {
            held();
        }
    });
}

/**
 * Whether somebody elsewhere holds a lock; false where nobody can say.
 *
 * @param {string} name
 */
export async function isHeld(name) {
    try {
        const { held = [] } = await navigator.locks.query();
        const named = (/** @type {string | undefined} */ other) => other === name;
        return held.filter((lock) => named(lock.name)).length > own.filter(named).length;
    } catch {
        return false;
    }
}

/**
 * Holds a lock alone. Resolves to what lets go of it; to false where somebody has it, here or elsewhere; to nothing where nobody
 * can say.
 *
 * @param {string} name
 * @returns {Promise<(() => void) | false | undefined>}
 */
export function claim(name) {
    return new Promise((resolve) => {
        const held = (/** @type {Lock | null} */ lock) => {
            if (lock === null) return resolve(false);
            return /** @type {Promise<void>} */ (new Promise((ended) => {
                const end = () => {
                    ends.delete(end);
                    ended();
                };
                ends.add(end);
                resolve(end);
            }));
        };
        try {
            navigator.locks.request(name, { ifAvailable: true }, held).catch(() => resolve(undefined));
        } catch {
            resolve(undefined);
        }
    });
}

/**
 * Joins a channel, or gives undefined where there is none.
 *
 * @param {string} name
 * @param {(text: string) => void} heard
 */
export function join(name, heard) {
    try {
        const channel = new BroadcastChannel(name);
        // On Node an open channel would keep the process alive.
        /** @type {any} */ (channel).unref?.();
        channel.onmessage = ({ data }) => {
            if (typeof data === 'string' && !data.startsWith(page)) heard(data.slice(data.indexOf(' ') + 1));
        };
        ends.add(() => channel.close());
        return channel;
    } catch {
        return undefined;
    }
}

/**
 * @param {BroadcastChannel | undefined} channel
 * @param {string} text
 */
export function say(channel, text) {
    try {
        channel?.postMessage(page + text);
    } catch {
        // It was closed.
    }
}

/** @param {BroadcastChannel | undefined} channel */
export function leave(channel) {
    channel?.close();
}
