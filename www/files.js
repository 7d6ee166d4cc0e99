// The files of the demo: a small tree in memory, made anew with every page. What may be done with them is decided by the
// library, which asks this host only where a path leads.

import { link, virtualHost } from '/pkg/hosts/virtual.js';

export const files = virtualHost({
    cwd: '/demo',
    tree: {
        demo: {
            'notes.md': 'Buy milk.\n',
            docs: { 'guide.md': 'Permissions say what may be done without a question.\n' },
            memory: { 'today.md': 'Nothing to remember yet.\n' },
            // Closed, whatever the permissions are.
            secrets: { 'key.txt': 'the-key-that-nobody-reads\n' },
            // Two names that lead elsewhere than they say.
            outbox: link('/outside'),
            shortcut: link('secrets'),
        },
        outside: { 'readme.md': 'Outside the working directory.\n' },
    },
});
