// The public surface in a real browser, on IndexedDB. The cases are those that Node runs on the tarball, too, and some
// that need a database.

import { inBrowser } from '../support/run_cases.mjs';

await inBrowser(['copies', 'reentrancy', 'bad_input', 'gate', 'results', 'sessions', 'permissions', 'projects', 'approvals', 'stored_sessions', 'degraded', 'pairing', 'skill_files', 'skills', 'adapters', 'compaction', 'unanswered', 'budget']);
