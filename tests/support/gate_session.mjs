// `isHidden` as a tool of a session gets it: a runtime in memory with the rules of the case, and a model that calls the tool.

/** `isHidden(question, resolve, path)` for `runHidden` of gate.mjs. */
export const hiddenBySession = (rc) => async (question, resolve, path) => {
    let hidden;
    const tool = { ...question.tool, execute: (_, { isHidden }) => void (hidden = isHidden(path)) };
    let asked = 0;
    const model = {
        async complete() {
            if (asked++ > 0) return { role: 'assistant', content: 'Done.' };
            const { toolCallId, toolName, arguments: args } = question.call;
            return { role: 'assistant', content: [{ type: 'toolCall', id: toolCallId, name: toolName, arguments: args }] };
        },
    };
    const { cwd, workspaceRoot, pathStyle, protectedNames } = question;
    const resolvePaths = (base, paths) => paths.map((one) => resolve(base, one) ?? { unresolved: 'no answer' });
    const runtime = await rc.Runtime.open({
        storage: 'memory', tools: [tool], model, now: () => question.now, host: { cwd, workspaceRoot, pathStyle, resolvePaths, resolvePathsSync: resolvePaths },
        ...(protectedNames && { protectedNames }),
    });
    try {
        await useRules(runtime.permissions, question.rules);
        const { preset, runContext, agentId, source } = question;
        // Headless, so that a question ends the call instead of waiting for somebody.
        const session = await runtime.createSession({ cwd, dialect: 'loop', permissionPreset: preset, runContext, agentId, source, headless: true });
        for (const { scope } of question.bypasses) session.bypass(scope);
        await session.prompt('List it.');
        await session.dispose();
    } finally {
        await runtime.close();
    }
    return hidden ?? 'the tool was not run';
};

/** These rules instead of the seeded ones, in the order of their ids. */
async function useRules(permissions, rules) {
    for (const { id } of await permissions.listRules()) if (id >= 0) await permissions.deleteRule(id);
    for (const { id, ...rule } of [...rules].sort((left, right) => left.id - right.id)) await permissions.addRule(rule);
}
