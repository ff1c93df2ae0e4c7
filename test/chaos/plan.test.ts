/** Tests that a seed fixes every fault, every failpoint, and the choices of the load. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FailpointPlan } from './faults/armed-failpoints.ts';
import { randomFor } from './random.ts';
import { type DrawnEmail, drawRequest, mayEndAs, needsVerifiedTls } from './load/emails.ts';
import { isBirthWithoutSupervisor, isError, settledLate } from './node.ts';
import { readOptions } from './options.ts';
import { endsOf, FALLBACK_DOMAINS, FAILING_DOMAINS } from './receivers/domains.ts';
import { anyPoints, AT_STOP, refusals, shareOut, workerPoints } from './faults/failpoints.ts';
import { ATTACKS, type AttackerKeys } from './attacker/attacks.ts';
import { HOSTILE_DOMAINS, hostileEndsOf } from './attacker/hostile-domains.ts';
import { FAULTS, round } from './faults/schedule.ts';
import { SQL_FAILURES, SUPERVISOR_FAILPOINTS, WORKER_FAILPOINTS } from '../../src/lib/failpoint.ts';

const draws = (seed: number, purpose: string): number[] => {
  const random = randomFor(seed, purpose);
  return Array.from({ length: 1_000 }, () => random.next());
};

test('the same seed and purpose give the same random numbers', () => {
  assert.deepEqual(draws(7, 'load'), draws(7, 'load'));
  assert.notDeepEqual(draws(7, 'load'), draws(8, 'load'));
  assert.notDeepEqual(draws(7, 'load'), draws(7, 'faults'));
});

test('random numbers are evenly distributed between their bounds', () => {
  const random = randomFor(1, 'bounds');
  const counts = [0, 0, 0, 0];
  for (let throws = 0; throws < 4_000; throws += 1) counts[random.between(0, 3)]! += 1;
  assert.ok(
    counts.every((count) => count > 800),
    counts.join(' '),
  );
  assert.ok(draws(1, 'range').every((value) => value >= 0 && value < 1));
});

test('a round has every fault once, in an order fixed by the seed', () => {
  const orders = [1, 2, 1].map((seed) => round(randomFor(seed, 'faults')));
  for (const order of orders) {
    assert.deepEqual(
      order.toSorted((a, b) => a.localeCompare(b)),
      FAULTS.toSorted((a, b) => a.localeCompare(b)),
    );
  }
  assert.deepEqual(orders[0], orders[2]);
  assert.notDeepEqual(orders[0], orders[1]);
});

test('the attack, which takes longest, begins in the first third of a round', () => {
  for (let seed = 1; seed <= 50; seed += 1) {
    const order = round(randomFor(seed, 'faults'));
    assert.ok(order.indexOf('attack') <= order.length / 3, String(seed));
  }
});

test('the attacker sends to each hostile domain, and the ending of each such email is fixed', () => {
  const keys = { projectId: 'p', live: 'l', test: 't', weakest: 'w', from: 'hello@a.example' };
  const addresses = sentBy(keys);
  const domains = new Set(addresses.map((address) => address.split('@')[1]!));
  const live = [...domains].filter((domain) => domain !== 'simulator.test');
  const sorted = (names: readonly string[]) => names.toSorted((a, b) => a.localeCompare(b));
  assert.deepEqual(sorted(live), sorted(Object.values(HOSTILE_DOMAINS).flat()));
  for (const address of addresses) assert.equal(mayEndAs(address)?.length, 1, address);
  assert.equal(hostileEndsOf('well.example'), null);
});

function sentBy(keys: AttackerKeys): string[] {
  const random = randomFor(1, 'attacker');
  const victim = { emailId: 'e', domainId: 'd' };
  return ATTACKS.flatMap(({ answers, next }) =>
    Array.from({ length: answers }, (_, n) => next({ n, keys, random, victim })),
  ).flatMap((what) => (what.kind === 'mail' ? what.addresses : []));
}

test('every failpoint of a worker kills on exactly one node, the last one at the stop', () => {
  const random = randomFor(3, 'points');
  const lists = shareOut(workerPoints(random), random, 3);
  const names = lists.flatMap((list) =>
    list.filter(({ action }) => action === 'kill').map(({ name }) => name),
  );
  assert.equal(new Set(names).size, names.length);
  assert.deepEqual(new Set<string>([...names, AT_STOP]), new Set<string>(WORKER_FAILPOINTS));
  assert.ok(lists[0]!.length > lists[1]!.length);
});

test('every SQLSTATE refuses outcomes of mail in every run, and one of them those of webhooks', () => {
  const asked = refusals(randomFor(3, 'points'));
  const at = (wanted: string): string[] =>
    asked.filter(({ name }) => name === wanted).map(({ action }) => action);
  assert.deepEqual(at('settle_before_commit'), [...SQL_FAILURES]);
  assert.equal(at('webhook_before_commit').length, 1);
  const random = randomFor(3, 'points');
  const planned = shareOut(workerPoints(random), random, 3).flat();
  assert.equal(planned.filter(({ action }) => action !== 'kill').length, asked.length);
});

test('a refusal counts only when the refused outcome has been written', () => {
  const plan = new FailpointPlan(['a', 'b', 'c'], randomFor(3, 'points'), false);
  const before = plan.total;
  assert.equal(before, WORKER_FAILPOINTS.length + SUPERVISOR_FAILPOINTS.length + 4);
  const kept = { sqlstate: '42703', email_id: 'an id' };
  assert.equal(settledLate({ ...kept, msg: 'an outcome could not be stored' }), null);
  const { failpoint, action } = settledLate({
    ...kept,
    msg: 'an outcome that the database had refused is stored',
  })!;
  assert.equal(plan.hit(failpoint, action), true);
  assert.equal(plan.hit(failpoint, action), false);
  assert.equal(plan.unhit.size, before - 1);
  assert.ok(plan.unhit.has('settle_before_commit'), 'the kill there is still to come');
  assert.equal(plan.hit('settle_before_commit', 'delay'), false, 'a delay is no kill');
});

test('a node is armed with failpoints that were not hit, and last with those of its stop', () => {
  const plan = new FailpointPlan(['a', 'b', 'c'], randomFor(3, 'points'), false);
  const titled = (text: string): string[] =>
    text.split(',').map((item) => item.split('@')[0]!.replace('=kill', ''));
  const before = titled(plan.pointsFor('b', 0));
  assert.ok(before.includes('expire_before_commit') && !before.includes(AT_STOP));
  const [name = '', action = 'kill'] = before[0]!.split('=');
  assert.equal(plan.hit(name, action), true);
  assert.equal(plan.hit(name, action), false);
  assert.ok(!titled(plan.pointsFor('b', 0)).includes(before[0]!));
  for (const title of plan.unhit) {
    const [left = '', how = 'kill'] = title.split('=');
    if (left !== AT_STOP) plan.hit(left, how);
  }
  assert.deepEqual(titled(plan.pointsFor('b', 0)), [AT_STOP]);
  plan.disarm();
  assert.equal(plan.pointsFor('b', 0), '');
});

test('the emails of a short run go to every failing domain, and enforce TLS where it matters', () => {
  const random = randomFor(6, 'load');
  const drawnEmails: DrawnEmail[] = [];
  while (drawnEmails.length < 2_000) {
    const request = drawRequest(drawnEmails.length, random);
    assert.equal(new Set(request.map(({ environment }) => environment)).size, 1);
    drawnEmails.push(...request);
  }
  assert.deepEqual(
    drawnEmails.map(({ index }) => index),
    drawnEmails.map((_, at) => at),
  );
  const addresses = drawnEmails.flatMap((one) => one.addresses);
  const domains = new Set(addresses.map((address) => address.split('@')[1]));
  for (const domain of [...Object.keys(FAILING_DOMAINS), ...Object.keys(FALLBACK_DOMAINS)]) {
    assert.ok(domains.has(domain), domain);
    assert.ok(endsOf(domain)!.includes('delivered'), domain);
  }
  for (const { body, addresses: own } of drawnEmails) {
    assert.equal('tls' in body, own.some(needsVerifiedTls), own.join());
  }
  assert.equal(
    domains.size,
    Object.keys(FAILING_DOMAINS).length + Object.keys(FALLBACK_DOMAINS).length + 6,
  );
});

test('a long run also stalls processes and throws errors, but freezes none before a final dot', () => {
  const points = anyPoints(randomFor(5, 'more'), 2_000);
  assert.deepEqual([...new Set(points.map(({ action }) => action))].toSorted(), [
    'delay',
    'kill',
    'throw',
  ]);
});

test('the command line requires --quick or --minutes and reports errors', () => {
  assert.deepEqual(readOptions(['--quick', '--seed', '7']), {
    seed: 7,
    minutes: null,
    emails: 2_000,
  });
  assert.deepEqual(readOptions(['--minutes', '30', '--seed', '9']), {
    seed: 9,
    minutes: 30,
    emails: 2_000,
  });
  assert.equal(readOptions(['--help']), 'help');
  for (const args of [
    [],
    ['--quick', '--minutes', '3'],
    ['--minutes', '0'],
    ['--quick', '--seed', 'x'],
    ['--quack'],
  ]) {
    assert.ok('problem' in Object(readOptions(args)), args.join(' '));
  }
});

test('a worker that Node ends because its supervisor is gone is no broken process; another broken pipe is', () => {
  const trace = [
    'node:events:505',
    'Error: write EPIPE',
    '    at target._send (node:internal/child_process:932:20)',
    '    at cluster._setupWorker (node:internal/cluster/child:56:3)',
  ];
  assert.equal(isBirthWithoutSupervisor(trace), true);
  assert.equal(isBirthWithoutSupervisor(trace.slice(0, -1)), false);
  assert.equal(isBirthWithoutSupervisor(['TypeError: x', trace[3]!]), false);
});

test('an attempt that a worker could not finish is a broken process; one that waited for a lock in vain is not', () => {
  const msg =
    'this worker could not finish a delivery, and releases it; the delivery is retried in a minute';
  assert.equal(isError({ level: 'error', msg }), true);
  assert.equal(isError({ level: 'warn', msg }), false);
  assert.equal(isError({ level: 'fatal', msg: 'the worker ends' }), true);
  assert.equal(isError({ level: 'error', msg: 'an outcome could not be stored' }), false);
});
