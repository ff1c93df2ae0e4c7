/** The command line as a shell sees it: output, exit codes, mistakes. */
import { after, before, test } from 'node:test';
import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { testDatabase } from '../../test/support/postgres.ts';
import { type Service, startService } from '../../test/support/service.ts';
import {
  type CommandEnd,
  LAUNCHER,
  letterhaus,
  letterhausHere,
} from '../../test/support/letterhaus.ts';
import { systemWorld } from '../service/machine/system-world.ts';
import { runCommandLine } from './program.ts';

/** Its only project is Acme, until a test adds another one. */
let service: Service;
before(async () => {
  service = await startService({ env: { LETTERHAUS_RETENTION_METADATA: '60d' } });
});
after(() => service[Symbol.asyncDispose]());

test('help lists the commands and succeeds', async () => {
  const { code, stdout, stderr } = await letterhaus(['--help'], {});
  assert.equal(code, 0);
  assert.equal(stderr, '');
  for (const command of ['start', 'projects', 'keys', 'domains', 'send', 'emails', 'webhooks']) {
    assert.match(stdout, new RegExp(`^  ${command} `, 'm'));
  }
});

test('a command shows its usage by --help, and by help and its name', async () => {
  for (const words of [
    ['keys', '--help'],
    ['keys', 'create', '--help'],
    ['help', 'keys'],
  ]) {
    const { code, stdout } = await letterhausHere(words, {});
    assert.equal(code, 0);
    assert.match(stdout, /^Usage: letterhaus keys/);
  }
});

test('every command has --help, and --json unless it only groups others', async () => {
  const help = async (...words: string[]): Promise<string> => {
    let text = '';
    const out = (more: string) => void (text += more);
    const cli = { env: {}, world: systemWorld, program: 'letterhaus', out, err: out };
    await runCommandLine([...words, '--help'], cli);
    assert.match(text, new RegExp(`^Usage: letterhaus ${words.join(' ')}`));
    return text;
  };
  const partsIn = (text: string) => {
    const list = text.split(/^Commands:\n/m)[1]?.split('\n\n')[0] ?? '';
    const names = list.split('\n').map((line) => /^ {2}([a-z-]+)/.exec(line)?.[1]);
    return names.filter((name) => name !== undefined && name !== 'help') as string[];
  };
  const commands = partsIn(await help());
  // The benchmark prints its own help, which a test below checks.
  for (const command of commands.filter((name) => name !== 'bench')) {
    const text = await help(command);
    const parts = partsIn(text);
    if (parts.length === 0) assert.match(text, /^ {2}--json/m, command);
    for (const part of parts) assert.match(await help(command, part), /^ {2}--json/m, part);
  }
  assert.ok(commands.length >= 14, commands.join());
  process.exitCode = 0;
});

test('bench is the benchmark of the clone, with all its options', async () => {
  const { code, stdout } = await letterhaus(['bench', '--help'], {});
  assert.equal(code, 0);
  assert.match(stdout, /--postfix .*--json/s);
  const typo = await letterhaus(['bench', '--only', 'starts'], {});
  assert.equal(typo.code, 2);
  assert.match(typo.stderr, /"starts" is no row; choose from start, accept/);
});

/** Runs `letterhaus` without a process for each call, for commands that are refused before anything is opened. */
async function inThisProcess(words: readonly string[]): Promise<CommandEnd> {
  let [stdout, stderr] = ['', ''];
  await runCommandLine(words, {
    env: {},
    world: systemWorld,
    program: 'letterhaus',
    out: (text) => (stdout += text),
    err: (text) => (stderr += text),
  });
  const code = Number(process.exitCode ?? 0);
  process.exitCode = 0;
  return { code, stdout, stderr };
}

const MISUSES: [words: string[], says: RegExp][] = [
  [[], /Usage: letterhaus/],
  [['keis'], /unknown command 'keis'[^]*Did you mean keys\?/],
  [['keys', 'create'], /required option '--environment <environment>'/],
  [['keys', 'create', '--environment', 'prod'], /Allowed choices are live, test/],
  [['keys', 'create', '--environment', 'live', '--expires', 'soon'], /Write 12h, 30d, or a time/],
  [['start', '--workers', '0'], /Write a number from 1 to 256/],
  [['start', '--only', 'api,delivry'], /Did you mean delivery\?/],
  [
    ['webhooks', 'add', 'http://x.test', '--events', 'email.bounce'],
    /Did you mean email.bounced\?/,
  ],
  [['suppressions', 'add', 'nobody'], /not an email address/],
  [['explain', 'reply', 'nonsense'], /not a reply of a mail server; begin it with its three-digit/],
  [['explain', 'reply', '5.7.1 Message refused'], /not a reply of a mail server/],
  [['explain', 'reply', '250 2.0.0 OK'], /250 is not a refusal/],
  [['explain', 'reply', '550 No', '--phase', 'lunch'], /Allowed choices are greeting, ehlo/],
  [['explain', 'reply'], /missing required argument 'reply'/],
  [
    ['send', '--from', 'a@acme.test', '--to', 'b@acme.test', '--subject', 'x'],
    /No service is running on this machine/,
  ],
  [
    [
      'send',
      '--from',
      'a@acme.test',
      '--to',
      'b@x.test',
      '--subject',
      'x',
      '--url',
      'http://x.test',
    ],
    /API key is needed/,
  ],
  [
    ['send', '--key', 'k', '--environment', 'live'],
    /'--environment <environment>' cannot be used with option '--key/,
  ],
  [['send', '--from', 'a@acme.test', '--key', 'k', '--url', 'http://x.test'], /needs --from, --to/],
  [
    ['send', '--batch', '/nowhere', '--key', 'k', '--url', 'http://x.test'],
    /batch cannot be read: .*one email as JSON on each line/,
  ],
  [['projects', 'create', ' '], /Write a name of 1 to 100 characters/],
  [
    ['keys', 'create', '--environment', 'live', '--name', 'a\nb'],
    /Write a name of 1 to 100 characters/,
  ],
];

const NOBODY_THERE = ['--url', 'http://127.0.0.1:6', '--key'];
const LIST_THERE = ['emails', 'list', ...NOBODY_THERE];

test('with --json an error is printed as JSON', async () => {
  const mistakes: [words: string[], env: Record<string, string>, says: RegExp][] = [
    [['keis'], {}, /^unknown command 'keis' \(?Did you mean keys\?/],
    [['keys', 'create'], {}, /^required option '--environment <environment>' not specified$/],
    [['start'], { PORT: 'x', HOST: 'a b' }, /^PORT: [^]*\. HOST: [^\n]*\.$/],
    [['start'], { LETTERHAUS_DATA_DIR: LAUNCHER }, /is no folder: set LETTERHAUS_DATA_DIR/],
    [['keys', 'list'], { LETTERHAUS_DATA_DIR: LAUNCHER }, /is no folder: set LETTERHAUS_DATA_DIR/],
    [['move', '--to-file', '/nowhere'], {}, /^--to-file cannot be read: ENOENT/],
    [['emails', 'show', ''], {}, /^The argument id is empty\.$/],
    [[...LIST_THERE, 'a\nb'], {}, /^The API key has characters that are not allowed in a key\.$/],
    [
      ['start'],
      { LETTERHAUS_HOSTNAME: 'name' },
      /^LETTERHAUS_HOSTNAME: name is not fully qualified/,
    ],
  ];
  for (const [words, env, says] of mistakes) {
    const { code, stdout, stderr } = await letterhausHere([...words, '--json'], env);
    assert.equal(code, 2, stderr);
    assert.equal(stdout, '');
    const { error } = JSON.parse(stderr);
    assert.deepEqual(Object.keys(error), ['code', 'message']);
    assert.equal(error.code, 'usage_error');
    assert.match(error.message, says);
  }
});

test('with --json a service that does not answer is reported as JSON, also by login', async () => {
  for (const words of [LIST_THERE, ['login', ...NOBODY_THERE]]) {
    const { code, stdout, stderr } = await letterhausHere([...words, 'k', '--json'], {});
    assert.deepEqual([code, stdout], [1, '']);
    const { error } = JSON.parse(stderr);
    assert.equal(error.code, 'service_unavailable');
    assert.match(error.message, /^No response from the service at http:\/\/127\.0\.0\.1:6 /);
  }
});

test('a link for an owner is not printed from a data directory that has no database, and none is made there', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'letterhaus-empty-'));
  after(() => rmSync(folder, { recursive: true }));
  const env = { LETTERHAUS_DATA_DIR: join(folder, 'data') };
  for (const words of [
    ['owner', 'link'],
    ['owner', 'reset', 'jo@acme.test'],
  ]) {
    const { code, stdout, stderr } = await letterhausHere(words, env);
    assert.equal(code, 2);
    assert.equal(stdout, '');
    assert.match(stderr, /data has no database\. Set LETTERHAUS_DATA_DIR to the data directory of/);
  }
  assert.deepEqual(readdirSync(folder), []);
});

test('no error shows the password of an address', async () => {
  const env = { LETTERHAUS_DATA_DIR: '/proc/nowhere' };
  const urls = [
    'postgres://jo:hidden@127.0.0.1:6/x',
    'postgres://jo:hidden@127.0.0.1:99999/x',
    'postgres://127.0.0.1:6/x?user=jo&password=hidden',
    'postgres://jo:hidden%zz@127.0.0.1:6/x',
    'postgres://jo:hidden@127.0.0.1:6/x?sslmode=verify-full&sslrootcert=/nowhere',
    'mysql://jo:hidden@127.0.0.1/x',
  ];
  const ofService = [
    'http://jo:hidden@127.0.0.1:6',
    'http://jo:hid@hidden@127.0.0.1:99999',
    'ftp://jo:hidden@x',
    'jo:hidden@x',
  ];
  const runs: [words: string[], env: Record<string, string>][] = [
    ...urls.flatMap((DATABASE_URL): [string[], Record<string, string>][] => [
      [['migrate'], { ...env, DATABASE_URL }],
      [['upgrade-check'], { ...env, DATABASE_URL }],
      [['owner', 'link'], { ...env, DATABASE_URL }],
      [['move', '--to', DATABASE_URL], { ...env, DATABASE_URL: urls[0]! }],
    ]),
    ...ofService.flatMap((url): [string[], Record<string, string>][] => [
      [['emails', 'list', '--key', 'k', '--url', url], env],
      [['emails', 'list'], { ...env, LETTERHAUS_URL: url, LETTERHAUS_API_KEY: 'k' }],
      [['login', '--key', 'k', '--url', url], env],
    ]),
  ];
  for (const [words, given] of runs) {
    const { code, stdout, stderr } = await letterhausHere(words, given);
    assert.ok(code === 1 || code === 2, words.join(' '));
    assert.notEqual(stderr, '');
    assert.doesNotMatch(stdout + stderr, /hid/, words.join(' '));
  }
});

test('a request that the API refuses as invalid ends with the exit code of wrong usage', async () => {
  for (const words of [
    ['domains', 'add', 'no domain'],
    ['webhooks', 'add', 'nowhere'],
  ]) {
    const { code, stderr } = await service.cli(...words);
    assert.equal(code, 2, stderr);
  }
});

test('after a login, commands go to the saved service, in the project of its key', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'letterhaus-test-'));
  const elsewhere = { XDG_CONFIG_HOME: folder, LETTERHAUS_DATA_DIR: join(folder, 'none') };
  const run = (...words: string[]) => letterhausHere(words, elsewhere);
  try {
    const wrong = await run('login', '--url', service.url, '--key', 'lh_test_wrong');
    assert.equal(wrong.code, 1);
    assert.match(wrong.stderr, /does not accept this key/);
    const { stdout } = await run('login', '--url', service.url, '--key', service.testKey);
    assert.match(stdout, /project Acme \(test\), until letterhaus logout/);
    assert.equal(statSync(join(folder, 'letterhaus/profile.json')).mode & 0o777, 0o600);
    const listed = await run('domains', 'list', '--json');
    assert.equal(JSON.parse(listed.stdout).data[0].name, 'acme.test');
    const other = await run('domains', 'list', '--project', 'Acme');
    assert.match(other.stderr, /leave out --project, --all-projects and --environment/);
    assert.equal((await run('logout')).code, 0);
    assert.match((await run('domains', 'list')).stderr, /No service is running on this machine/);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

test('send reports an invalid address of the service', async () => {
  const email = ['--from', 'a@acme.test', '--to', 'b@acme.test', '--subject', 'x', '--text', 'x'];
  for (const url of ['nonsense', '127.0.0.1:3000', 'ftp://x']) {
    const { code, stderr } = await letterhausHere(
      ['send', ...email, '--key', 'k', '--url', url],
      {},
    );
    assert.equal(code, 2);
    assert.match(
      stderr,
      /^letterhaus: "[^"]+" is not the address of a service; write it like http/,
    );
  }
});

for (const [words, says] of MISUSES) {
  test(`letterhaus ${words.join(' ')} prints an error and exits with 2`, async () => {
    const { code, stdout, stderr } = await inThisProcess(words);
    assert.equal(code, 2);
    assert.equal(stdout, '');
    assert.match(stderr, says);
  });
}

test('explain reply classifies a reply without data directory or database', async () => {
  const env = { LETTERHAUS_DATA_DIR: '/proc/nowhere', DATABASE_URL: 'postgres://x@127.0.0.1:1/x' };
  const explained = async (...words: string[]) => {
    const { code, stdout, stderr } = await letterhausHere(['explain', 'reply', ...words], env);
    assert.equal(code, 0, stderr);
    return stdout;
  };
  assert.deepEqual(JSON.parse(await explained('550 5.1.1 No such user', '--json')), {
    category: 'mailbox',
    blame: 'recipient',
    permanent: true,
    suppress: true,
    advice: 'The mailbox does not exist: check the address for a typing mistake.',
  });
  const greeting = ['550 5.1.1 No such user', '--phase', 'greeting', '--json'];
  const atGreeting = JSON.parse(await explained(...greeting));
  assert.equal(atGreeting.permanent || atGreeting.suppress, false);
  const lines = '550-5.7.1 Suspicious due to the very low\r\n550 5.7.1 reputation of your address';
  assert.match(await explained(lines), /^category +reputation$/m);
  const text = await explained('550', 'Ip', 'frequency', 'limited');
  assert.match(text, /^category +policy$/m);
  assert.match(text, /^blame +us \(the operator of this service\)$/m);
  assert.match(text, /^permanent +no: retried, first after half an hour$/m);
  assert.match(text, /^suppress +no$/m);
  assert.match(text, /^meaning +rate limited$/m);
  assert.match(text, /^example +550 Ip frequency limited/m);
});

test('all configuration errors are reported before anything is opened', async () => {
  const env = { PORT: 'x', LETTERHAUS_MX_PORT: 'y', LETTERHAUS_DATA_DIR: '/proc/nowhere' };
  for (const words of [['start'], ['migrate']]) {
    const { code, stdout, stderr } = await letterhausHere(words, env);
    assert.equal(code, 2);
    assert.equal(stdout, '');
    assert.match(stderr, /^letterhaus: PORT: .*\nletterhaus: LETTERHAUS_MX_PORT: .*\n$/);
  }
});

test('an unavailable database is reported in one sentence', async () => {
  const env = { DATABASE_URL: 'postgres://x@127.0.0.1:1/x' };
  const { code, stderr } = await letterhausHere(['migrate'], env);
  assert.equal(code, 1);
  assert.match(stderr, /^letterhaus: the database cannot be reached: .*DATABASE_URL is right\.\n$/);
});

test('limits and retention of a project are set, and reset', async () => {
  const ofSending = (environment: string) => (limit: { environment: string; category: string }) =>
    limit.environment === environment && limit.category === 'sending';
  const setLimit = (...words: string[]) => service.cliJson('projects', 'set-limit', ...words);
  const { stdout } = await service.cli('projects', 'set-limit', '5000/60', '--environment', 'live');
  assert.equal(stdout, 'The sending limit of live is now 5000 per 60 s.\n');
  const { limits } = await setLimit('20/60', '--category', 'recipients', '--environment', 'test');
  assert.deepEqual(limits.find(ofSending('live')).limit, { max: 5000, window_s: 60 });
  assert.equal(limits.find(ofSending('test')).is_own, false);
  const reset = await setLimit('default');
  assert.equal(reset.limits.find(ofSending('live')).is_own, false);

  const retention = (...words: string[]) => service.cli('projects', 'set-retention', ...words);
  const both = await retention('--content', '7d', '--metadata', '720h');
  assert.equal(both.stdout, 'Acme keeps content for 7d and metadata for 30d.\n');
  const { content, metadata } = JSON.parse(
    (await retention('--metadata', 'default', '--json')).stdout,
  );
  assert.deepEqual([content, metadata], ['7d', null]);
  const longer = await retention('--metadata', '61d');
  assert.equal(longer.code, 2);
  assert.match(longer.stderr, /keeps metadata for 60d \(LETTERHAUS_RETENTION_METADATA\)/);
  const outlives = await retention('--metadata', '6d');
  assert.match(outlives.stderr, /Content cannot be kept for longer than metadata/);
  assert.match(
    (await retention('--content', '3')).stderr,
    /Write days or hours, such as 7d or 36h/,
  );
});

test('projects and keys are created, listed and revoked', async () => {
  const json = (...words: string[]) => service.cliJson(...words);
  const shop = await json('projects', 'create', 'Shop');
  assert.equal(shop.name, 'Shop');
  const key = await json('keys', 'create', '--environment', 'live', '--project', 'Shop');
  assert.match(key.key, /^lh_live_[0-9A-Za-z]{38}$/);
  assert.deepEqual([key.project_id, key.environment], [shop.id, 'live']);

  const which = await service.cli('keys', 'list');
  assert.equal(which.code, 2);
  assert.match(which.stderr, /several projects; say which with --project \(Acme, Shop\)/);
  const typo = await service.cli('keys', 'list', '--project', 'shopp');
  assert.match(typo.stderr, /did you mean Shop\?/);

  const narrow = ['--permission', 'sending_access', '--domain', 'ACME.com', '--expires', '30d'];
  // Scripts may use the former name of --environment, which no help shows.
  assert.doesNotMatch((await service.cli('keys', 'create', '--help')).stdout, /--mode/);
  await json('keys', 'create', '--mode', 'test', '--project', 'shop', ...narrow);
  const { data } = await json('keys', 'list', '--project', shop.id);
  const facts = data.map(({ environment, permission, domain }: Record<string, string>) => [
    environment,
    permission,
    domain,
  ]);
  assert.deepEqual(facts, [
    ['live', 'full_access', null],
    ['test', 'sending_access', 'acme.com'],
  ]);
  assert.equal(JSON.stringify(data).includes(key.key), false);

  assert.equal((await json('keys', 'revoke', key.id, '--project', 'Shop')).revoked, true);
  const all = await json('keys', 'list', '--all-projects');
  assert.deepEqual(
    all.data.map(({ environment }: { environment: string }) => environment).toSorted(),
    ['test', 'test'],
  );
  const again = await service.cli('keys', 'revoke', key.id, '--project', 'Shop', '--json');
  assert.equal(again.code, 1);
  assert.equal(JSON.parse(again.stderr).error.code, 'not_found');
});

test('migrating twice does nothing the second time', async () => {
  await using database = await testDatabase();
  const { code, stdout } = await letterhausHere(['migrate', '--json'], {
    DATABASE_URL: database.url,
  });
  assert.equal(code, 0);
  assert.deepEqual(JSON.parse(stdout).applied, []);
});

test('--version prints the version', async () => {
  const { code, stdout } = await letterhaus(['--version'], {});
  assert.equal(code, 0);
  assert.match(stdout, /^\d+\.\d+\.\d+\n$/);
});
