/** Runs a short, deterministic `npm run fuzz`, and tests that it detects each kind of problem. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { type Finding, runTarget } from './run.ts';
import { type Input, type Target } from './target.ts';
import { TARGETS } from './targets.ts';

const SEED = 8;
/**
 * Inputs for each target. They are the same each time, to show that targets work. `npm run fuzz` finds new faults with
 * 10,000 of each.
 */
const RUNS = 300;
const GROWN = 15;

function describeFinding(target: Target, finding: Finding | null): string {
  if (finding === null) return '';
  const { number, what, input } = finding;
  const text = JSON.stringify(input.bytes.toString('latin1').slice(0, 500));
  return `seed ${SEED}, ${target.name}, ${input.kind}, input ${number}: ${what}\n${text}`;
}

const SUBJECTS: Record<string, string> = {
  reports: 'reports',
  headers: 'headers and addresses',
  formats: 'MIME, policies and replies',
  content: 'texts and templates',
  smtp: 'SMTP dialogues',
  http: 'HTTP bodies',
  dns: 'DNS answers',
};

for (const target of TARGETS) {
  const subject = SUBJECTS[target.name] ?? target.name;
  test(`generated ${subject} neither throw nor take long`, async () => {
    const options = { seed: SEED, from: 1, runs: RUNS, grownEvery: Infinity };
    const { finding, runs } = await runTarget(target, options);
    // No assert.equal: to show how a large input differs from null takes gigabytes.
    assert.ok(finding === null, describeFinding(target, finding));
    assert.equal(runs, RUNS);
  });

  test(`the time for hostile ${subject} grows no faster than their length`, async () => {
    const options = { seed: SEED, from: 0, runs: GROWN, grownEvery: 1 };
    const { finding, grown } = await runTarget(target, options);
    // No assert.equal: to show how a large input differs from null takes gigabytes.
    assert.ok(finding === null, describeFinding(target, finding));
    assert.equal(grown, GROWN);
  });
}

const planted = (read: (input: Input) => void): Target => ({
  name: 'planted',
  about: '',
  generate: (random) => ({ kind: '', bytes: Buffer.alloc(random.between(1, 100), ' ') }),
  grow: () => (length) => ({ kind: '', bytes: Buffer.alloc(length, ' ') }),
  growsUpTo: 8 * 1024,
  cpuMsMax: 60_000,
  open: () => Promise.resolve({ read }),
});

test('a parser that throws is found, with the number of the input', async () => {
  const target = planted(({ bytes }) => assert.notEqual(bytes.length, 77));
  const { finding } = await runTarget(target, { seed: SEED, from: 0, runs: 10_000 });
  assert.match(finding?.what ?? '', /^threw AssertionError/);
  const { number = 0 } = finding ?? {};
  const again = await runTarget(target, { seed: SEED, from: number, runs: 1 });
  assert.equal(again.finding?.input.bytes.length, 77);
});

test('a parser that takes quadratic time for blanks is found', async () => {
  // This pattern once stopped a worker for ten seconds. 8 KB take too little time to measure on a fast processor.
  const read = ({ bytes }: Input) => void `${bytes.toString()}x`.replace(/\s*$/, '');
  const target = { ...planted(read), growsUpTo: 16 * 1024 };
  const { finding } = await runTarget(target, { seed: SEED, from: 0, runs: 1 });
  assert.match(finding?.what ?? '', /^takes longer than linear/);
});

test('an input that takes too long is found', async () => {
  const work = ({ bytes }: Input) => {
    createHash('sha256').update('x'.repeat(bytes.length * 100_000));
  };
  const target = { ...planted(work), cpuMsMax: 1 };
  const { finding } = await runTarget(target, { seed: SEED, from: 1, runs: 100 });
  assert.match(finding?.what ?? '', /ms of CPU, 1 may be$/);
});
