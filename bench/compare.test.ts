/** Tests the pure parts of the benchmark: statistics of rounds, tables and the command line. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { formatComparison, orderOf } from './compare.ts';
import { median, ratiosOf } from './numbers.ts';
import { readOptions } from './options.ts';
import { nameOf } from './parts/processes.ts';
import { costsOf, type Rate } from './rates.ts';
import { cpuLine, formatCpu } from './report.ts';

const MACHINE = {
  cpus: '2 × A processor',
  memoryGb: 8,
  kernel: 'Linux 6',
  node: 'v26',
  postgres: '18',
  load: 0,
};

test('two versions take turns, and each goes first as often as second', () => {
  const order = [1, 2, 3, 4].flatMap(orderOf).join(' ');
  assert.equal(order, 'old new new old old new new old');
});

test('the ratio of two versions is the median ratio of the rounds, not the ratio of the medians', () => {
  const old = [100, 200, 400];
  const present = [110, 180, 480];
  assert.equal(median(ratiosOf(present, old)), 1.1);
  assert.equal(median(present) / median(old), 0.9);
});

test('a comparison shows both medians, the ratio and its range', () => {
  const text = formatComparison({
    machine: MACHINE,
    commit: '3338ae7',
    lines: [{ what: 'end to end', old: [100, 200, 400], new: [110, 180, 480], ratio: 1.1 }],
    cpu: [],
  });
  const [, heading, line] = text.split('\n').filter((one) => one !== '');
  assert.match(heading!, /old: 3338ae7\s+new\s+ratio\s+min – max$/);
  assert.match(line!, /^end to end\s+\/s\s+200\s+180\s+1\.100\s+0\.90 – 1\.20$/);
});

test('processes of PostgreSQL are named by what they do, its backends together', () => {
  const names = [
    '/x/bin/postgres',
    'postgres: walwriter ',
    'postgres: io worker 0',
    'postgres: letterhaus letterhaus [local] INSERT',
    'postgres: letterhaus letterhaus 127.0.0.1(50212) idle',
  ].map((title) => nameOf([title], 'postgres'));
  assert.deepEqual(names, [
    'postgres: postmaster',
    'postgres: walwriter',
    'postgres: io worker',
    'postgres: backends',
    'postgres: backends',
  ]);
  assert.equal(nameOf(['/x/node', '/x/src/service/worker.ts'], 'workers'), 'worker');
  assert.equal(nameOf(['/x/node', '/x/src/main.ts', 'start'], 'supervisor'), 'supervisor');
});

test('CPU and context switches are shown for each process, per message', () => {
  const use = { part: 'postgres', voluntary: 30, involuntary: 10 };
  const processes = costsOf(
    [
      { ...use, pid: 1, name: 'postgres: backends', cpuMs: 4 },
      { ...use, pid: 2, name: 'postgres: backends', cpuMs: 6 },
      { ...use, pid: 3, name: 'postgres: idle', cpuMs: 0 },
    ],
    10,
  );
  assert.deepEqual(processes[0], {
    name: 'postgres: backends',
    cpuUs: 1_000,
    voluntary: 6,
    involuntary: 2,
  });
  const cpu = { byPartUs: { postgres: 1_000 }, othersCores: 0, processes };
  const rate: Rate = { perSecond: 1, messageBytes: null, cpu };
  const text = formatCpu(cpuLine('end to end', [rate, rate])).join('\n');
  assert.match(text, /^ {2}postgres: backends\s+1,000\s+6\.00\s+2\.00$/m);
  assert.doesNotMatch(text, /postgres: idle/);
});

test('--compare takes a commit and only rows of rates', () => {
  const chosen = readOptions(['--compare', '3338ae7', '--only', 'accept,receivers']);
  assert.ok(typeof chosen === 'object' && 'compare' in chosen);
  assert.deepEqual([chosen.compare, chosen.only], ['3338ae7', ['accept', 'receivers']]);
  for (const others of [['--only', 'memory'], ['--postfix'], ['scale']]) {
    const refused = readOptions(['--compare', 'HEAD', ...others]);
    assert.match('problem' in Object(refused) ? JSON.stringify(refused) : '', /--compare/);
  }
});
