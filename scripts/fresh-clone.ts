/**
 * Follows the README as a stranger does: clones this repository's HEAD to a new folder, with a new
 * home and a new data directory, and runs `npm start -- --once` or `npm test` there, with the
 * system's own Node. As root it can do that for an ordinary user, too. With `--run install` it does
 * what docs/system-user.md says: `letterhaus install`, then a start from a read-only folder, by an
 * ordinary user where root installed. For use before a release.
 */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, copyFileSync, existsSync, mkdirSync, mkdtempSync } from 'node:fs';
import { readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { parseArgs } from 'node:util';

const USAGE = `Usage: npm run fresh-clone -- [options]

  --as <root|user>    run as root, or as an ordinary user: you, or nobody when you are root; repeatable
                      (default: both as root, else you)
  --run <run>         start: run npm start -- --once; test: npm test; install: letterhaus install, and
                      start from a read-only folder; repeatable (default: start)
  --npm <version>     use this npm (through npx) instead of the installed one
  --keep              keep the clones
  --help              show this text

The clone contains only what is committed. It gets PATH, locale, proxies, certificates and .npmrc
of this machine, and no other setting.
`;

const RUNS: Record<string, string[]> = {
  start: ['npm', 'start', '--', '--once'],
  test: ['npm', 'test'],
  install: ['node', 'bin/letterhaus', 'install'],
};
/** The command that `letterhaus install` prints, with --once. */
const INSTALLED = ['node_modules/.bin/node', 'bin/letterhaus', 'start', '--once'];
const ROOT = join(import.meta.dirname, '..');
const KEPT_VARIABLES =
  /^(PATH|LANG|LC_ALL|TERM|TMPDIR|\w*_proxy|npm_config_(registry|cafile|proxy|https_proxy|noproxy)|NODE_EXTRA_CA_CERTS|SSL_CERT_(FILE|DIR))$/i;

type Account = { uid: number; gid: number };
type FreshRun = { as: string; run: string; npm: string | undefined; keep: boolean };

process.exitCode = await main();

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      as: { type: 'string', multiple: true, default: isRoot() ? ['root', 'user'] : ['user'] },
      run: { type: 'string', multiple: true, default: ['start'] },
      npm: { type: 'string' },
      keep: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  const problem = problemWith(values.as, values.run);
  if (values.help || problem !== null) {
    process.stdout.write(`${problem === null ? '' : `${problem}\n\n`}${USAGE}`);
    return values.help ? 0 : 2;
  }
  // Ctrl-C reaches npm by itself; this process stays to clean up after it.
  process.on('SIGINT', () => {});
  const results: string[] = [];
  let failures = 0;
  for (const as of values.as) {
    for (const run of values.run) {
      const startedAt = performance.now();
      const passed = await tryAs({ as, run, npm: values.npm, keep: values.keep });
      const seconds = ((performance.now() - startedAt) / 1000).toFixed(0);
      results.push(`${passed ? '✓' : '✗'} ${RUNS[run]?.join(' ')} as ${as}, ${seconds} s\n`);
      if (!passed) failures += 1;
    }
  }
  process.stdout.write(`\n${results.join('')}`);
  return failures === 0 ? 0 : 1;
}

function problemWith(accounts: string[], runs: string[]): string | null {
  if (!accounts.every((name) => ['root', 'user'].includes(name)))
    return '--as must be root or user.';
  if (!runs.every((name) => RUNS[name] !== undefined))
    return '--run must be start, test or install.';
  return accounts.includes('root') && !isRoot() ? 'Only root can run it as root.' : null;
}

function isRoot(): boolean {
  return process.getuid?.() === 0;
}

async function tryAs({ as, run, npm, keep }: FreshRun): Promise<boolean> {
  const account = as === 'user' && isRoot() ? nobody() : null;
  const home = mkdtempSync(join(tmpdir(), 'letterhaus-fresh-'));
  const clone = join(home, 'a clone');
  try {
    makeClone(home, clone, account);
    const [command = 'npm', ...args] = RUNS[run] ?? [];
    const words = command === 'npm' && npm !== undefined ? ['npx', '-y', `npm@${npm}`] : [command];
    const place = { clone, home, dataDir: join(home, 'data') };
    if (!(await runWords([...words, ...args], place, account))) return false;
    return run !== 'install' || (await startInstalled(place, account));
  } finally {
    if (keep) process.stdout.write(`Kept: ${clone}\n`);
    else {
      execFileSync('chmod', ['-R', 'u+w', home]);
      rmSync(home, { recursive: true, force: true });
    }
  }
}

type Place = { clone: string; home: string; dataDir: string };

/** @returns whether it exits with 0 */
async function runWords(
  [command = '', ...args]: string[],
  { clone, home, dataDir }: Place,
  account: Account | null,
): Promise<boolean> {
  const child = spawn(command, args, {
    cwd: clone,
    env: { ...keptVariables(), HOME: home, LETTERHAUS_DATA_DIR: dataDir },
    stdio: ['ignore', 'inherit', 'inherit'],
    ...account,
  });
  const [code] = (await once(child, 'exit')) as [number | null];
  return code === 0;
}

/** Where root installed, another user starts: the one of the service. */
function startInstalled({ clone, home, dataDir }: Place, owner: Account | null): Promise<boolean> {
  const lockfile = readFileSync(join(clone, 'node_modules/.package-lock.json'), 'utf8');
  const { packages } = JSON.parse(lockfile) as { packages: Record<string, { link?: true }> };
  const count = Object.entries(packages).filter(
    ([path, { link }]) => path.startsWith('node_modules/') && !link,
  ).length;
  const files = readdirSync(join(clone, 'node_modules'), { recursive: true, withFileTypes: true });
  const bytes = files
    .filter((file) => file.isFile())
    .reduce((sum, { parentPath, name }) => sum + statSync(join(parentPath, name)).size, 0);
  process.stdout.write(`Packages: ${count}, ${(bytes / 1e6).toFixed(0)} MB\n`);
  const user = owner ?? (isRoot() ? nobody() : null);
  if (user !== null) execFileSync('chown', [`${user.uid}:${user.gid}`, dataDir]);
  chmodSync(home, 0o711);
  execFileSync('chmod', ['-R', 'a-w', clone]);
  return runWords(INSTALLED, { clone, home: '/nonexistent', dataDir }, user);
}

/** A home that is closed to everybody else, as /root is, with the clone in it. */
function makeClone(home: string, clone: string, account: Account | null): void {
  chmodSync(home, 0o700);
  execFileSync('git', ['clone', '--quiet', '--no-hardlinks', ROOT, clone], { stdio: 'inherit' });
  mkdirSync(join(home, 'data'));
  const npmrc = join(homedir(), '.npmrc');
  if (existsSync(npmrc)) copyFileSync(npmrc, join(home, '.npmrc'));
  if (account !== null) execFileSync('chown', ['-R', `${account.uid}:${account.gid}`, home]);
}

function nobody(): Account {
  const id = (flag: string) => Number(execFileSync('id', [flag, 'nobody'], { encoding: 'utf8' }));
  return { uid: id('-u'), gid: id('-g') };
}

/** npm has put this clone's own Node first on PATH; a stranger has only the system's. */
function keptVariables(): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(([name]) => KEPT_VARIABLES.test(name));
  const path = (process.env['PATH'] ?? '').split(delimiter);
  const own = path.filter((folder) => !folder.includes('node_modules'));
  return { ...Object.fromEntries(kept), PATH: own.join(delimiter) };
}
