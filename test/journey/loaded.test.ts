/**
 * The code that processes load at their start. Loading takes most of the CPU time of a start and of every command, so a
 * process loads rarely used libraries only when it needs them.
 */
import assert from 'node:assert/strict';
import { globSync } from 'node:fs';
import { dirname } from 'node:path';
import { before, test } from 'node:test';
import { AS_ROOT, temporaryFolder } from '../support/embedded.ts';
import { letterhaus } from '../support/letterhaus.ts';
import { preload } from '../support/preload.ts';
import { startService } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';

/**
 * Writes the packages, our own files and the built-in modules that a program has loaded when it ends. `early NAME`: a
 * supervisor loaded it before it forked its workers.
 */
const LIST_LOADED = `
  const names = new Set();
  process.getBuiltinModule('node:module').registerHooks({
    load(url, context, next) {
      const ofPackage = /node_modules\\/((?:@[^/]+\\/)?[^/]+)/.exec(url)?.[1];
      const name = ofPackage ?? /\\/src\\/(.*)$/.exec(url)?.[1];
      names.add(name);
      const { workers = {} } = process.getBuiltinModule('node:cluster');
      if (Object.keys(workers).length === 0) names.add('early ' + name);
      return next(url, context);
    },
  });
  process.on('exit', () => {
    const all = [...names, ...process.moduleLoadList].join(';');
    const program = process.argv[1].split('/').at(-1);
    const list = '<loaded by ' + program + '>;' + all + ';</loaded>';
    process.getBuiltinModule('node:fs').writeSync(2, list);
  });`;

type Program = 'main.ts' | 'worker.ts';

/** Node's own undici, which comes with the exports of node:http unless these are avoided. */
const BUILT_IN_UNDICI = 'NativeModule internal/deps/undici/undici';

function loadedIn(log: string, program: Program): Set<string> {
  const list = new RegExp(`<loaded by ${program}>(.*?)</loaded>`).exec(log)?.[1];
  assert.ok(list, log);
  return new Set(list.split(';'));
}

function assertLoaded(
  log: string,
  { program, loaded, not }: { program: Program; loaded: string; not: string[] },
): void {
  const all = loadedIn(log, program);
  assert.ok(all.has(loaded), `${loaded} is not loaded, or not noticed`);
  assert.deepEqual(
    not.filter((name) => all.has(name)),
    [],
  );
}

let logOfService = '';
before(async () => {
  await using service = await startService({ env: preload('.ts', LIST_LOADED) });
  await service.stop();
  logOfService = service.logs;
});

test('a supervisor starts without the libraries of its workers and without an HTTP server', () => {
  const not = ['undici', 'zod', 'fastify', 'prom-client', 'postgrator', BUILT_IN_UNDICI];
  const http = ['NativeModule _http_server', 'certificates/challenge-listener.ts'];
  assertLoaded(logOfService, { program: 'main.ts', loaded: 'pg', not: [...not, ...http] });
});

test('workers load their code while the supervisor loads its own and opens the database', () => {
  const not = ['pg', 'service/supervisor.ts', 'service/service-database.ts'];
  assertLoaded(logOfService, {
    program: 'main.ts',
    loaded: 'early service/service-entry.ts',
    not: not.map((name) => `early ${name}`),
  });
});

test('a worker starts without the code for SMTP, requests to others, DNS providers, backups and the identity provider', () => {
  // Root's worker loads them before it drops its privileges where the code is closed to others.
  const lazy = [
    'undici',
    'openid-client',
    'net/dns-provider/open-provider.ts',
    'backup/places/locate-place.ts',
    'net/smtp/server/smtp-server.ts',
  ];
  const not = ['postgrator', BUILT_IN_UNDICI, ...(AS_ROOT ? [] : lazy)];
  assertLoaded(logOfService, { program: 'worker.ts', loaded: 'fastify', not });
});

test('a service keeps its compiled code when it is ready, so that one that is killed starts as fast again', async () => {
  const folder = temporaryFolder();
  await using _service = await startService({ env: { NODE_COMPILE_CACHE: folder } });
  // A folder for each set of V8's flags: workers have some, the supervisor has none.
  const kept = () => {
    const files = globSync('*/*', { cwd: folder });
    return Object.values(Object.groupBy(files, dirname)).map((group) => group?.length ?? 0);
  };
  const areKept = () => kept().length === 2 && kept().every((count) => count > 100);
  await waitFor(areKept, { what: 'the code of supervisor and worker' });
});

test('a command loads what it needs itself', async () => {
  const list = async (...args: string[]) =>
    (await letterhaus(args, preload('main.ts', LIST_LOADED))).stderr;
  const program = 'main.ts';
  const unneeded = ['pg', 'pino', 'zod', 'undici'];
  assertLoaded(await list('--help'), { program, loaded: 'commander', not: unneeded });
  const not = ['zod', 'undici', 'postgrator', BUILT_IN_UNDICI];
  const ofClient = await list('emails', 'list', '--help');
  assertLoaded(ofClient, { program, loaded: 'commander', not: ['pg', ...not] });
  assertLoaded(await list('migrate', '--help'), { program, loaded: 'pg', not });
});
