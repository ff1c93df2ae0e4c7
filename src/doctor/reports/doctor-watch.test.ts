/** When a running service runs the doctor, what it stores and logs, and what the operator is notified of. */
import assert from 'node:assert/strict';
import { after, beforeEach, test } from 'node:test';
import { testDatabase } from '../../../test/support/postgres.ts';
import { waitFor } from '../../../test/support/wait.ts';
import { createOrganization, createProject } from '../../accounts/projects/project-store.ts';
import type { OperatorEvents } from '../../core/operator-events.ts';
import { clearCondition, listConditions, raiseCondition } from '../../operator/condition-store.ts';
import { DoctorWatch } from './doctor-watch.ts';
import { type Finding, green, red, unknown, worstOf, yellow } from '../finding.ts';
import * as store from '../report-store.ts';
import type { CheckReport } from '../run-checks.ts';

const database = await testDatabase();
after(() => database[Symbol.asyncDispose]());
const { db } = database;
const sql: typeof database.sql = (text, values) => database.sql(text, values);

const NODE = { instance: '0193f2a4-7c1e-7b3a-9d52-6f0e8c4b21aa', host: 'mail1' };
const OTHER = { instance: '0193f2a4-7c1e-7b3a-9d52-6f0e8c4b21ab', host: 'mail2' };

const organization = await createOrganization(db, 'Acme');
const { id: projectId } = await createProject(db, organization.id, 'Acme');

beforeEach(async () => {
  await sql('truncate doctor_reports, operator_conditions, events');
  await sql(`update clock set skew = '0'`);
  await setLive(true);
});

async function setLive(isLive: boolean): Promise<void> {
  await sql('delete from domains');
  if (!isLive) return;
  await sql(
    `insert into domains (project_id, id, environment, name, status, created_at, verified_at,
                                  rsa_selector, rsa_public_key, rsa_private_key,
                                  ed25519_selector, ed25519_public_key, ed25519_private_key)
             values ($1, gen_random_uuid(), 'live', 'acme.example', 'verified', now(), now(),
                     's1', 'AAAA', '', 's2', 'BBBB', '')`,
    [projectId],
  );
}

const advance = (time: string) => sql('update clock set skew = skew + $1::interval', [time]);

const problem = { meaning: 'Mail waits.', remedy: 'Open the port.' };
const BLOCKED = red('Port 25 does not answer.', problem);

function report(id: string, ...findings: Finding[]): CheckReport {
  const level = worstOf(findings.map((finding) => finding.level));
  return { id, title: `Title of ${id}`, level, findings };
}

type Line = { level: string; text: string };

/** A process of a node. `finds` is what the next runs find. */
function startNode(node = NODE, { isDaily = true }: { isDaily?: boolean } = {}) {
  const lines: Line[] = [];
  const changes: Promise<unknown>[] = [];
  let runs = 0;
  let found: CheckReport[] = [report('outgoing_port_25', BLOCKED)];
  let examine = (): Promise<readonly CheckReport[]> => Promise.resolve(found);
  const to =
    (level: string) =>
    (...args: unknown[]) =>
      void lines.push({ level, text: String(args.at(-1)) });
  const operatorEvents: OperatorEvents = {
    raise: (condition) => void changes.push(raiseCondition(db, condition)),
    clear: (ended) => void changes.push(clearCondition(db, ended)),
  };
  const watch = new DoctorWatch({
    db,
    node,
    isDaily,
    examine: (onProgress) => {
      runs += 1;
      onProgress(1);
      return examine();
    },
    operatorEvents,
    log: { info: to('info'), warn: to('warn') } as never,
    world: { monotonicMs: () => runs * 5_000 },
  });
  return {
    lines,
    get runs() {
      return runs;
    },
    finds: (...reports: CheckReport[]) => void (found = reports),
    /** The next run waits for the promise. */
    waits: (until: Promise<readonly CheckReport[]>) => void (examine = () => until),
    poll: async () => {
      await watch.run();
      await Promise.all(changes.splice(0));
    },
  };
}

const openConditions = async () =>
  (await listConditions(db, 100)).map(({ type, subject }) => `${type} ${subject}`).toSorted();

test('a live start logs how many checks are green, the worst finding, and where to read more', async () => {
  const node = startNode();
  node.finds(
    report('host_name', green('It is right.')),
    report('helo_name', yellow('The name looks rented.', problem)),
    report('outgoing_port_25', BLOCKED),
  );
  await node.poll();
  assert.deepEqual(node.lines, [
    { level: 'warn', text: 'doctor: 1 red, 1 yellow, 0 unknown; 1 of 3 checks are green' },
    {
      level: 'warn',
      text: 'doctor: the worst is outgoing_port_25: Port 25 does not answer. Mail waits.',
    },
    { level: 'warn', text: 'doctor: `letterhaus doctor` says for each finding what to do' },
  ]);
  await node.poll();
  assert.equal(node.lines.length, 3, 'only the start logs them');
});

test('a service that restarts within 10 minutes logs the stored report and does not run again', async () => {
  await startNode().poll();
  await advance('9 minutes');
  const restarted = startNode();
  await restarted.poll();
  assert.equal(restarted.runs, 0);
  assert.equal(restarted.lines.length, 3);
  await advance('2 minutes');
  const later = startNode();
  await later.poll();
  assert.equal(later.runs, 1);
});

test('it runs once a day, and never while no domain is verified or when it is off', async () => {
  const node = startNode();
  const off = startNode(OTHER, { isDaily: false });
  await setLive(false);
  await node.poll();
  assert.deepEqual([node.runs, node.lines], [0, []]);
  await setLive(true);
  for (const time of ['0 hours', '23 hours', '2 hours', '1 hour']) {
    await advance(time);
    await node.poll();
    await off.poll();
  }
  assert.equal(node.runs, 2);
  assert.deepEqual([off.runs, off.lines], [0, []]);
});

test('of two processes of a node only one runs; another node runs its own', async () => {
  const nodes = [startNode(), startNode(), startNode(OTHER)];
  await Promise.all(nodes.map((node) => node.poll()));
  assert.equal(nodes[0]!.runs + nodes[1]!.runs, 1);
  assert.equal(nodes[2]!.runs, 1);
});

test('an operator can ask for a run, once a minute; the page sees its progress', async () => {
  const node = startNode(NODE, { isDaily: false });
  await node.poll();
  assert.equal(await store.requestRuns(db), 0, 'a node that does not run is not asked');
  await sql(
    `insert into nodes (id, instance, host, pid, started_at)
     values (gen_random_uuid(), $1, 'mail1', 1, now())`,
    [NODE.instance],
  );
  assert.equal(await store.requestRuns(db), 1);
  assert.equal(await store.requestRuns(db), 0, 'one request is enough');
  const end = Promise.withResolvers<readonly CheckReport[]>();
  node.waits(end.promise);
  const polling = node.poll();
  const seen = await waitFor(
    async () => (await store.listReports(db, 10)).find((one) => one.checksEnded === 1) ?? null,
    { what: 'progress' },
  );
  assert.deepEqual([seen.isRunning, seen.isRequested, seen.finishedAt], [true, false, null]);
  assert.equal(await store.requestRuns(db), 0, 'it runs');
  end.resolve([report('clock', green('It is right.'))]);
  await polling;
  const [stored] = await store.listReports(db, 10);
  assert.deepEqual([stored?.isRunning, stored?.green, stored?.red], [false, 1, 0]);
  assert.deepEqual(
    stored?.findings.map(({ check, level, found, docs }) => [check, level, found, docs]),
    [['clock', 'green', 'It is right.', 'docs/doctor.md#clock']],
  );
  assert.equal(await store.requestRuns(db), 0, 'it ended less than a minute ago');
  await advance('61 seconds');
  assert.equal(await store.requestRuns(db), 1);
  await sql('delete from nodes');
});

test('a run whose process dies is begun again, and one that was frozen stores nothing', async () => {
  const frozen = startNode();
  const end = Promise.withResolvers<readonly CheckReport[]>();
  frozen.waits(end.promise);
  const polling = frozen.poll();
  await waitFor(async () => (await store.findReport(db, NODE.instance))?.isRunning ?? false, {
    what: 'the run',
  });
  await advance('5 minutes');
  const successor = startNode();
  await successor.poll();
  assert.equal(successor.runs, 0, 'it may still run');
  await advance('6 minutes');
  successor.finds(report('clock', green('It is right.')));
  await successor.poll();
  assert.equal(successor.runs, 1);
  end.resolve([report('outgoing_port_25', BLOCKED)]);
  await polling;
  assert.equal((await store.findReport(db, NODE.instance))?.red, 0);
  assert.deepEqual(await openConditions(), []);
});

test('new findings open conditions, their ends end them, and unknown results change nothing', async () => {
  const node = startNode();
  const of = (finding: (...args: [string, typeof problem & { subject: string }]) => Finding) =>
    finding('No reverse DNS.', { ...problem, subject: '192.0.2.7' });
  node.finds(
    report('outgoing_port_25', BLOCKED),
    report('reverse_dns', of(yellow)),
    report('domain_dmarc', yellow('No policy.', { ...problem, subject: 'acme.example' })),
    report('conditions', red('The disk is full.', problem)),
  );
  await node.poll();
  assert.deepEqual(await openConditions(), [
    'doctor.red outgoing_port_25 (mail1)',
    'doctor.yellow domain_dmarc (acme.example)',
    'doctor.yellow reverse_dns (192.0.2.7 on mail1)',
  ]);
  const [first] = await sql('select count(*)::int as count from events');
  assert.equal(first.count, 3);

  await advance('25 hours');
  node.finds(
    report('outgoing_port_25', unknown('The resolver does not answer.')),
    report('reverse_dns', of(red)),
    report('domain_dmarc', green('A policy.', 'acme.example')),
  );
  await node.poll();
  assert.deepEqual(await openConditions(), [
    'doctor.red outgoing_port_25 (mail1)',
    'doctor.red reverse_dns (192.0.2.7 on mail1)',
  ]);

  await advance('25 hours');
  node.finds(report('outgoing_port_25', green('It answers.')), report('reverse_dns', of(red)));
  await node.poll();
  assert.deepEqual(await openConditions(), ['doctor.red reverse_dns (192.0.2.7 on mail1)']);
  const [last] = await sql('select count(*)::int as count from events');
  assert.equal(last.count, 7, 'a lasting finding is not reported again');

  await startNode(OTHER).poll();
  assert.deepEqual(
    await openConditions(),
    ['doctor.red outgoing_port_25 (mail2)', 'doctor.red reverse_dns (192.0.2.7 on mail1)'],
    'a node ends only its own conditions',
  );
});

test('a report may contain any character that a foreign server replies', async () => {
  const node = startNode();
  const hostile = 'Refused: 550 \0 \ud800 "\\u0000" \u{1f4a5}.';
  node.finds(report('outgoing_port_25', red(hostile, problem)));
  await node.poll();
  const stored = await store.findReport(db, NODE.instance);
  assert.equal(stored?.findings[0]?.found, hostile);
  assert.deepEqual(await openConditions(), ['doctor.red outgoing_port_25 (mail1)']);
});
