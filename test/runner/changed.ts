/**
 * `npm test -- --changed [REF]`: the checks, and the tests near a change, in about a minute.
 *
 * Unit tests run when a changed file is at most NEAR imports away (imports.ts): without a limit, most
 * files reach most tests. Api, journey and isolation tests run when they need a changed file outside of src. What
 * their service runs is all of src, so a change there runs the few that MATTERS names for its folder and
 * those with the name of the file. A changed lockfile or compiler setting runs everything.
 */
import { execFileSync } from 'node:child_process';
import { basename } from 'node:path';
import { reachedFrom } from './imports.ts';
import { keepFiles, ROOT, type Step, type TestStep } from './steps.ts';

const SENDING = ['test/api/emails.test.ts', 'test/journey/delivered.test.ts'];
const TRANSPORT = ['test/journey/tls.test.ts', 'test/journey/refused.test.ts', ...SENDING];

/** The tests with a service that a change below a folder of src runs. */
export const MATTERS: Readonly<Record<string, readonly string[]>> = {
  src: SENDING,
  'src/accounts': ['test/api/keys.test.ts', 'test/api/limits.test.ts'],
  'src/cli': SENDING,
  'src/config': SENDING,
  'src/core': SENDING,
  'src/database': ['test/api/reading.test.ts', 'test/journey/deferred.test.ts', ...SENDING],
  'src/delivery': [
    'test/journey/deferred.test.ts',
    'test/journey/shaping.test.ts',
    'test/journey/provider-names.test.ts',
    ...TRANSPORT,
  ],
  'src/domains': ['test/api/domains.test.ts', 'test/journey/signatures.test.ts'],
  'src/compat': [
    'test/api/resend-emails.test.ts',
    'test/api/resend-methods.test.ts',
    'test/api/resend-requests.test.ts',
  ],
  'src/http': ['test/api/errors.test.ts', 'test/api/requests.test.ts', ...SENDING],
  'src/emails': ['test/api/reading.test.ts', 'test/api/scheduling.test.ts', ...SENDING],
  'src/inbound': ['test/journey/inbound.test.ts', 'test/journey/unsubscribe-mail.test.ts'],
  'src/mail': ['test/journey/signatures.test.ts', 'test/journey/inbound.test.ts', ...SENDING],
  'src/net': TRANSPORT,
  'src/accept': [
    'test/api/addresses.test.ts',
    'test/api/idempotency.test.ts',
    'test/journey/submission.test.ts',
    ...SENDING,
  ],
  'src/service': ['test/journey/worker-killed.test.ts', 'test/journey/stop.test.ts', ...SENDING],
  'src/settle': ['test/journey/deferred.test.ts', ...SENDING],
  'src/suppressions': ['test/api/suppressions.test.ts', 'test/journey/suppressed.test.ts'],
  'src/webhooks': [
    'test/api/webhooks.test.ts',
    'test/journey/webhooks.test.ts',
    'test/isolation/webhooks.test.ts',
  ],
};

/** Tests that read a folder as a whole, so that they name no file of it. */
const READERS: readonly [folder: string, reader: string][] = [
  ['migrations/', 'src/migration/migrate.ts'],
  ['test/support/certs/', 'test/support/journey.ts'],
  ['web/', 'test/support/dashboard.ts'],
  ['deploy/systemd/', 'test/launcher/systemd.test.ts'],
];

/** Measured: at 3 the median file of src runs tests for 19 s on two cores, without a limit for 52 s. */
export const NEAR = 3;

/** Changes after which everything runs. */
const EVERYTHING = [
  'package-lock.json',
  'tsconfig.json',
  'runtime/package.json',
  'web/package.json',
  'test/sdk/workerd/package.json',
];

export type Chosen = { steps: Step[]; report: string };

/** @param ref compared with the working tree; null: where this branch left main */
export function chooseChanged(all: readonly Step[], ref: string | null): Chosen | string {
  try {
    const base = ref ?? baseOfBranch();
    return chooseFor(all, changedSince(base), base);
  } catch (error) {
    return `git does not say what has changed: ${(error as Error).message.trim()}`;
  }
}

/** @param base for the report */
export function chooseFor(all: readonly Step[], changed: readonly string[], base: string): Chosen {
  const wanted = changed.flatMap((path) => {
    const reader = READERS.find(([folder]) => path.startsWith(folder))?.[1];
    return reader === undefined ? [path] : [path, reader];
  });
  const isAll = changed.some((path) => EVERYTHING.includes(path));
  const matters = new Set(wanted.flatMap((path) => mattersFor(path)));
  const isReached = (file: string): boolean => {
    if (isAll || matters.has(file)) return true;
    const reached = reachedFrom(file);
    return wanted.some((path) => {
      const distance = reached.get(path);
      if (distance === undefined) return false;
      return isService(file) ? !path.startsWith('src/') : distance <= NEAR;
    });
  };
  const steps = all.flatMap((step) =>
    step.kind === 'tool' || step.name === 'tidy' ? [step] : keepFiles(step, isReached),
  );
  const lines = all.filter((step) => step.kind === 'tests').map((step) => lineOf(step, steps));
  const what = `${changed.length} ${changed.length === 1 ? 'file differs' : 'files differ'} from ${base}`;
  return {
    steps,
    report: `${what}:\n${lines.join('')}Farther tests are left out; npm test runs all.\n\n`,
  };
}

function lineOf(step: TestStep, chosen: readonly Step[]): string {
  const kept = chosen.find((one) => one.name === step.name);
  const count = kept?.kind === 'tests' ? kept.files.length : 0;
  const why = /api|journey|isolation/.test(step.name)
    ? 'need a changed file besides src, or are on the matter of a changed file'
    : `a changed file is at most ${NEAR} imports away`;
  const reason = step.name === 'tidy' ? 'always' : why;
  return `  ${step.name.padEnd(9)} ${count} of ${step.files.length} test files (${reason})\n`;
}

function isService(file: string): boolean {
  return /^test\/(?:api|journey|isolation)\//.test(file);
}

function mattersFor(path: string): readonly string[] {
  if (!path.startsWith('src/') || path.endsWith('.test.ts')) return [];
  const name = basename(path, '.ts');
  const namesakes = [`test/api/${name}.test.ts`, `test/journey/${name}.test.ts`];
  const folder = [3, 2]
    .map((depth) => path.split('/', depth).join('/'))
    .find((at) => at in MATTERS);
  return [...MATTERS[folder ?? 'src']!, ...namesakes];
}

function changedSince(base: string): string[] {
  const tracked = git('diff', '--name-only', '--no-renames', '-z', base, '--');
  const untracked = git('ls-files', '--others', '--exclude-standard', '-z');
  return [
    ...new Set(`${tracked}${untracked}`.split('\0').filter((path) => path !== '')),
  ].toSorted();
}

/** On main, and where there is no main, what is not committed yet. */
function baseOfBranch(): string {
  for (const main of ['main', 'origin/main']) {
    try {
      return git('merge-base', main, 'HEAD').trim().slice(0, 12);
    } catch {
      // A clone may have neither.
    }
  }
  return 'HEAD';
}

function git(...args: string[]): string {
  return execFileSync('git', args, {
    cwd: ROOT,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}
