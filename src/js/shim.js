// What the module and its loaders share. One copy of this file ships, so that there is one class of error.

/** Every error of this package: `code` is one of a closed list, `data` has the fields of that code. */
export class RunContextError extends Error {
    /**
     * @param {string} code
     * @param {string} message
     * @param {Record<string, unknown>} [data]
     */
    constructor(code, message, data = {}) {
        super(message);
        /** @readonly */
        this.code = code;
        /** @readonly */
        this.data = data;
        Object.defineProperties(this, { code: { writable: false }, data: { writable: false } });
    }
}
// On the prototype, as the built-in errors have it.
Object.defineProperty(RunContextError.prototype, 'name', {
    value: 'RunContextError',
    writable: true,
    configurable: true,
});
