// How much room a site's data has, and whether the browser keeps it for good. Where it cannot be asked nothing is known.

/** Bytes that are used, and that may be, as far as the browser says. */
export async function estimate() {
    try {
        return await navigator.storage.estimate();
    } catch {
        return {};
    }
}

/** Whether the browser clears nothing by itself, now that it was asked to. It may ask a person. */
export async function persist() {
    try {
        return await navigator.storage.persist();
    } catch {
        return false;
    }
}
