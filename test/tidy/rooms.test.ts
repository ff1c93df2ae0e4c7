/** The layers of src/ and of the dashboard, the ports of rooms, and what a room holds. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dashboardLayersAreKept } from './dashboard.ts';
import { holds } from './holds.ts';
import * as rooms from './rooms.ts';
import { changesAreSeen, conditionalOperations, VIEWS } from './shared-changes.ts';
import { CODE, DASHBOARD, readFiles, SOURCE } from './source.ts';

/** Rooms of more than twelve files, with the reason. */
const LARGE_ROOMS: Record<string, string> = {
  'src/backup/point-in-time': 'the steps of one archive, which nothing else uses',
};

holds('a file imports only the roles below its own', SOURCE, rooms.layersAreKept, [
  ['src/core/a.ts', `import { b } from '../mail/b.ts';`, 'must not import src/mail/b.ts.'],
  ['src/core/b.ts', `import { z } from 'zod';`, 'must not import zod.'],
  ['src/core/c.ts', `import { readFile } from 'node:fs';`, 'must not import node:fs.'],
  ['src/mail/a.ts', `import net from 'node:net';`, 'must not import node:net.'],
  ['src/mail/b.ts', `import { createHash } from 'node:crypto';`],
  [
    'src/net/a.ts',
    `import type { Db } from '../database/a.ts';`,
    'must not import src/database/a.ts.',
  ],
  [
    'src/stats/a-store.ts',
    `import { a } from '../events/b-store.ts';\nimport { b } from './b.ts';`,
  ],
  [
    'src/stats/b-store.ts',
    `import { a } from './routes.ts';`,
    'must not import src/stats/routes.ts.',
  ],
  [
    'src/stats/c-store.ts',
    `import { a } from '../events/b.ts';`,
    'must not import src/events/b.ts.',
  ],
  ['src/stats/d-store.ts', `import type { A } from '../events/b.ts';`],
  [
    'src/accept/a.ts',
    `import {\n  claim,\n  settle,\n} from '../delivery/queue/claims.ts';`,
    'must not import src/delivery/queue/claims.ts.',
  ],
  ['src/accept/b.ts', `import { a } from '../templates/work.ts';\nimport { b } from './a.ts';`],
  [
    'src/accept/c.ts',
    `import { a } from './http-draft.ts';`,
    'must not import src/accept/http-draft.ts.',
  ],
  ['src/accept/http-draft.ts', `import { a } from './c.ts';\nimport { b } from '../http/app.ts';`],
  ['src/http/a.ts', `await import('../cli/start.ts');`, 'must not import src/cli/start.ts.'],
  ['src/http/b.ts', `import type { Config } from '../config/config.ts';`],
  [
    'src/http/c.ts',
    `import { read } from '../config/config.ts';`,
    'must not import src/config/config.ts.',
  ],
  ['src/webhooks/a.ts', `import '../service/server.ts';`, 'must not import src/service/server.ts.'],
  ['src/webhooks/disabled-watch.ts', `import type { Pool } from '../service/pool.ts';`],
  [
    'src/webhooks/b.ts',
    `import { a } from './disabled-watch.ts';`,
    'must not import src/webhooks/disabled-watch.ts.',
  ],
  ['src/service/a.ts', `import '../stats/command.ts';`, 'must not import src/stats/command.ts.'],
  [
    'src/emails/a-store.ts',
    `import '../../test/support/x.ts';`,
    'must not import test/support/x.ts.',
  ],
  ['src/delivery/a.test.ts', `import { accept } from '../accept/early.ts';`],
  ['src/cli/a.ts', `import { readConfig } from '../config/config.ts';`],
]);

test('the ports of rooms are there', () => {
  assert.deepEqual(rooms.portsAreThere(SOURCE), []);
  assert.match(rooms.portsAreThere([])[0] ?? '', /is a port of its room, but is not there\.$/);
});

test('a room holds what one can survey', () => {
  const tree = [...SOURCE, ...readFiles(['test/chaos/**/*.ts'])];
  assert.deepEqual(rooms.roomsStaySmall(LARGE_ROOMS)(tree), []);
  const files = Array.from({ length: 13 }, (_, index) => ({
    path: `src/a/b${index}.ts`,
    text: '',
  }));
  const crowded = 'src/a has 13 files (12 at most): divide it by noun.';
  assert.deepEqual(rooms.roomsStaySmall({})(files), [crowded]);
  const excused = rooms.roomsStaySmall({ 'src/a': 'one table' });
  assert.deepEqual(excused(files), []);
  assert.deepEqual(excused(files.slice(1)), ['src/a needs no exception any more.']);
});

holds(
  'a room has a README that names its files',
  [...CODE, ...readFiles(['src/*/README.md'])],
  rooms.roomsHaveGuides,
  [
    ['src/a/b.ts', ''],
    ['src/a/README.md', '`b.ts`, `src/a/b.ts`, `c/*.test.ts`'],
    ['src/d/README.md', '`b.ts`', 'names b.ts, which is not there.'],
    ['src/e/README.md', 'a\n'.repeat(26), 'has 26 lines (25 at most).'],
  ],
);

test('a room without a README is noticed', () => {
  const offences = rooms.roomsHaveGuides([{ path: 'src/a/b.ts', text: '' }]);
  assert.deepEqual(offences, ['src/a has no README.md.']);
});

holds('a name says what is inside', SOURCE, rooms.namesSayWhatIsInside, [
  ['src/a/service.ts', '', 'has a name that says nothing; use the noun.'],
  ['src/a/services.ts', ''],
]);

holds('the root of src holds main.ts and folders', SOURCE, rooms.theRootHoldsTheEntry, [
  ['src/main.ts', ''],
  ['src/core/a.ts', ''],
  ['src/log.ts', '', 'lies beside main.ts; give it a folder.'],
]);

holds('features of the dashboard do not import one another', DASHBOARD, dashboardLayersAreKept, [
  [
    'web/src/features/domains/a.tsx',
    `import { b } from '../queue/b.ts';`,
    'must not import web/src/features/queue/b.ts.',
  ],
  ['web/src/features/overview/a.tsx', `import { b } from '../queue/b.ts';`],
  ['web/src/features/emails/list/a.tsx', `import { b } from '../page/b.ts';`],
  ['web/src/ui/a.tsx', `import '../shell/b.ts';`, 'must not import web/src/shell/b.ts.'],
  ['web/src/api/a.ts', `import { b } from '../ui/b.tsx';`, 'must not import web/src/ui/b.tsx.'],
  ['web/src/router.tsx', `import('./features/domains/a.tsx');`],
  [
    'web/src/ui/b.tsx',
    `import { b } from '../../../src/store/b.ts';`,
    'must not import src/store/b.ts.',
  ],
  ['web/src/lib/a.ts', `import type { b } from '../../../src/core/b.ts';`],
]);

holds(
  'nobody overwrites the change of another unseen',
  DASHBOARD,
  changesAreSeen(conditionalOperations()),
  [
    [
      'web/src/features/domains/a.tsx',
      `await api.call('updateDomain', { path: { id: idOf(domain) }, body });`,
      'calls updateDomain without If-Match.',
    ],
    ['web/src/features/domains/b.tsx', `api.call('updateDomain', { path, body, headers })`],
    ['web/src/features/domains/c.tsx', `api.call('verifyDomain', { path })`],
    [
      'web/src/features/domains/d.tsx',
      `const headers = { 'if-match': domain.etag };`,
      'makes If-Match itself; use changeIfSame of web/src/ui/shared-change.tsx.',
    ],
    [
      'web/src/features/domains/e.tsx',
      `if ((await changeIfSame(etag, change)) === null) return;`,
      'calls changeIfSame; say in VIEWS what it shows of the other change.',
    ],
  ],
);

test('of the changes on condition, each is one that the rule knows', () => {
  const operations = conditionalOperations();
  for (const known of ['updateMember', 'deleteTemplate', 'setReturnPathHost']) {
    assert.ok(operations.has(known), known);
  }
  const paths = new Set(DASHBOARD.map(({ path }) => path));
  for (const path of Object.keys(VIEWS)) assert.ok(paths.has(path), `${path} is gone from VIEWS`);
});
