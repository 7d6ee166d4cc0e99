// The public surface in Node, on the packed tarball, in memory. The cases are those that the browser runs, too.

import { inNode } from '../support/run_cases.mjs';

await inNode(['copies', 'reentrancy', 'bad_input', 'gate', 'results', 'sessions', 'permissions', 'projects', 'approvals', 'degraded', 'pairing', 'skill_files', 'skills', 'adapters', 'compaction', 'unanswered', 'budget', 'transfer']);
