/**
 * deploy/systemd as docs/system-user.md installs it, without systemd: its command, environment and folders, for an
 * ordinary user with another home, who cannot write into the program folder. That folder has only the packages of the
 * service.
 */
import assert from 'node:assert/strict';
import { execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { findNamedUserId } from '../../src/database/embedded/folders.ts';
import { AS_ROOT } from '../support/embedded.ts';
import { waitFor } from '../support/wait.ts';
import { makeProgramFolder, type ProgramFolder } from './program-folder.ts';

const ROOT = join(import.meta.dirname, '../..');
/** A start on a busy machine that creates its database. */
const READY_WITHIN_MS = 120_000;

/** Free ports on loopback, and no DNS. */
const TEST_SETTINGS = `
PORT=0
LETTERHAUS_INBOUND_PORT=0
LETTERHAUS_SUBMISSION_PORTS=0
LETTERHAUS_SMTP_HOST=127.0.0.1
LETTERHAUS_DNS_SERVERS=127.0.0.1:9
LETTERHAUS_HOSTNAME=mail.example.com
`;

type Unit = {
  command: string[];
  cwd: string;
  env: Record<string, string>;
  account: { uid?: number; gid?: number };
  dataDir: string;
  cache: string;
};

/** Follows the page in a temporary folder, and reads the unit that it installs. */
function installUnit({ program, folder }: ProgramFolder): Unit {
  const id = AS_ROOT ? findNamedUserId() : null;
  const places: Record<string, string> = {
    '/opt/letterhaus': program,
    '/var/lib/letterhaus': join(folder, 'state'),
    '/var/cache/letterhaus': join(folder, 'cache'),
    '/etc/letterhaus': join(folder, 'etc'),
    '/etc/systemd/system': join(folder, 'system'),
  };
  const moved = (text: string): string =>
    Object.entries(places).reduce((all, [there, here]) => all.replaceAll(there, here), text);
  const place = (path: string): string => places[path]!;
  mkdirSync(place('/etc/systemd/system'));
  followPage(moved, id ?? process.getgid!());

  const unit = moved(
    readFileSync(join(place('/etc/systemd/system'), 'letterhaus.service'), 'utf8'),
  );
  const envFile = join(place('/etc/letterhaus'), 'letterhaus.env');
  writeFileSync(envFile, moved(readFileSync(envFile, 'utf8')) + TEST_SETTINGS);
  const values = (name: string): string[] =>
    [...unit.matchAll(new RegExp(`^${name}=(.*)$`, 'gm'))].map(([, value]) => value!);
  // systemd makes these folders, and sets the variables below.
  const makeFolder = (directive: string, parent: string): string => {
    const path = place(`${parent}/${values(directive)[0]}`);
    mkdirSync(path, { mode: parseInt(values(`${directive}Mode`)[0]!, 8) });
    if (id !== null) chownSync(path, id, id);
    return path;
  };
  const [dataDir, cache] = [
    makeFolder('StateDirectory', '/var/lib'),
    makeFolder('CacheDirectory', '/var/cache'),
  ];
  const closedHome = join(folder, 'root');
  mkdirSync(closedHome, { mode: 0o700 });
  const variables = values('Environment').map((pair) => pair.split('=') as [string, string]);
  return {
    command: values('ExecStart')[0]!.split(' '),
    cwd: values('WorkingDirectory')[0]!,
    env: {
      // A command that `runuser` starts has the home of another user.
      HOME: closedHome,
      USER: values('User')[0]!,
      PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
      INVOCATION_ID: '1f9c2a8d4e1b4b0f8e6a7c5d3b2a1908',
      JOURNAL_STREAM: '9:24101',
      LETTERHAUS_ENV_FILE: envFile,
      ...Object.fromEntries(variables),
    },
    account: id === null ? {} : { uid: id, gid: id },
    dataDir,
    cache,
  };
}

/** Runs the page's first block of commands. Accounts and systemd stay those of this machine. */
function followPage(moved: (text: string) => string, gid: number): void {
  const page = readFileSync(join(ROOT, 'docs/system-user.md'), 'utf8');
  const block = /^```sh\n(.*?)^```$/ms.exec(page)![1]!;
  const script = moved(block).replaceAll('-g letterhaus', `-g ${gid}`);
  const left = 'useradd() { :; }; systemctl() { :; }';
  const path = `${dirname(process.execPath)}:${process.env['PATH']}`;
  execFileSync('sh', ['-eu', '-c', `${left}\n${script}`], { env: { PATH: path } });
}

class Started {
  output = '';
  readonly child;
  readonly ended: Promise<[number | null, NodeJS.Signals | null]>;

  constructor({ command: [program, ...args], cwd, env, account }: Unit) {
    this.child = spawn(program!, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'], ...account });
    for (const stream of [this.child.stdout, this.child.stderr])
      stream.setEncoding('utf8').on('data', (text: string) => (this.output += text));
    this.ended = once(this.child, 'close') as Promise<[number | null, NodeJS.Signals | null]>;
  }

  /** @returns the address of the API */
  async ready(): Promise<string> {
    const isEnded = this.ended.then(([code]) => {
      throw new Error(`the service ended with ${code}\n${this.output}`);
    });
    const find = () => /ready at (http:\S+) /.exec(this.output)?.[1];
    const url = waitFor(find, { what: 'the service to be ready', timeoutMs: READY_WITHIN_MS });
    return Promise.race([url, isEnded]);
  }

  async stop(): Promise<void> {
    this.child.kill('SIGTERM');
    assert.deepEqual(await this.ended, [0, null], this.output);
  }
}

test('the unit starts from a read-only folder as an ordinary user, sends, and keeps the key out of the journal', async () => {
  using folders = makeProgramFolder();
  const unit = installUnit(folders);
  const service = new Started(unit);
  try {
    const url = await service.ready();
    assert.match(
      service.output,
      new RegExp(`\\(pid ${service.child.pid},`),
      'systemd watches the service itself',
    );

    const file = join(unit.dataDir, 'first-start.txt');
    await waitFor(() => service.output.includes(`are in ${file}.`), {
      what: 'the path of the key',
    });
    assert.equal(statSync(file).mode & 0o777, 0o600);
    const key = /lh_test_\w+/.exec(readFileSync(file, 'utf8'))![0];
    const secret = /#first=\w+/.exec(readFileSync(file, 'utf8'))![0];
    for (const text of [key, secret]) assert.ok(!service.output.includes(text), service.output);

    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    const email = {
      from: 'hello@acme.test',
      to: 'delivered@simulator.test',
      subject: 'Hello',
      text: 'Hi',
    };
    const sent = await fetch(`${url}/v1/emails`, {
      method: 'POST',
      headers,
      body: JSON.stringify(email),
    });
    assert.equal(sent.status, 202);
    const { id } = (await sent.json()) as { id: string };
    const isDelivered = async () => {
      const response = await fetch(`${url}/v1/emails/${id}`, { headers });
      return ((await response.json()) as { status: string }).status === 'delivered';
    };
    await waitFor(isDelivered, { what: 'the email to be delivered' });
    assert.equal((await fetch(`${url}/dashboard/`)).status, 200);

    // The commands read the same file of settings.
    const [node, launcher] = unit.command;
    const options = { cwd: '/', env: unit.env, ...unit.account };
    const status = await promisify(execFile)(node!, [launcher!, 'emails', 'show', id], options);
    assert.match(status.stdout, /delivered@simulator\.test/);
    await service.stop();
  } finally {
    service.child.kill('SIGKILL');
  }
  assert.notDeepEqual(readdirSync(unit.cache), [], 'compiled code is kept for the next start');
});
