/**
 * `npm run bench -- scale`: what the statements of the service take with ten thousand stored emails
 * and with ten million, and with a snapshot held open meanwhile, as by a backup. The tables are
 * filled by SQL; the statements are those of the service, on connections of the service
 * (test/support/statements.ts), one after the other. Next: scale-timing.ts.
 */
import { fillMail, makeWeeks } from '../test/support/fill.ts';
import { newSender, type Sender } from '../test/support/mail-store.ts';
import { testDatabase, type TestDatabase } from '../test/support/postgres.ts';
import { EXERCISES, type Stage } from '../test/support/statements.ts';
import { APP_ROLE, clientQueries, connectAsOwner, Database } from '../src/store/database.ts';
import { newId } from '../src/store/ids.ts';
import { registerNode } from '../src/store/nodes.ts';
import { createEndpoint } from '../src/store/webhook-endpoints.ts';
import { median, show } from './numbers.ts';
import { alignColumns } from './report.ts';
import { type Timings, timingDatabase } from './scale-timing.ts';

export type ScaleOptions = { emails: number; rounds: number };

const SMALL = 10_000;
/** As long as metadata is kept: twelve weeks and the present one. */
const WEEKS = 12;
const OPEN_SHARE = 0.1;
const HTML_BYTES = 100;
const WARM_UP_ROUNDS = 5;
/** Rounds of accepting, claiming and settling while the snapshot is held: what it keeps from going. */
const CHURN_ROUNDS = 150;
/** Waits by a timer, and what is no part of a day: not timed. */
const LEFT_OUT = [
  'what became of a batch',
  'retention',
  'projects',
  'nodes',
  'accept beyond the limit',
];

type Condition = { emails: number; hasSnapshot: boolean; timings: Timings };

/** @returns the tables as text */
export async function measureScale(
  { emails, rounds }: ScaleOptions,
  say: (line: string) => void,
): Promise<string> {
  await using database = await testDatabase();
  const stage = await setStage(database, await newSender(database.db));
  const conditions: Condition[] = [];
  let bytes = 0;
  for (const count of [SMALL, emails]) {
    const startedMs = performance.now();
    bytes = await fill(database, stage, count);
    const tookS = (performance.now() - startedMs) / 1000;
    say(`${count.toLocaleString('en-US')} emails: ${show(bytes / 1e9)} GB, in ${show(tookS)} s`);
    const here = { ...stage, someEmailId: await someEmail(database, stage, count) };
    for (const hasSnapshot of [false, true]) {
      say(`  statements, ${hasSnapshot ? 'with an old snapshot held open' : 'nothing else open'}`);
      const timings = await measure(database, here, { rounds, hasSnapshot });
      conditions.push({ emails: count, hasSnapshot, timings });
    }
  }
  return `${table(conditions)}\n\n${show((bytes / emails) * 1e-3)} GB per million emails with ${HTML_BYTES} bytes of html each.\n`;
}

async function setStage({ db }: TestDatabase, sender: Sender): Promise<Stage> {
  const [holder, endpointId, deadEndpointId] = [newId(), newId(), newId()];
  await registerNode(db, { id: holder, instance: newId(), host: 'here', pid: 1 });
  for (const id of [endpointId, deadEndpointId]) {
    const endpoint = { id, url: 'https://x.test', events: ['email.bounced' as const] };
    await createEndpoint(db, sender, { ...endpoint, secret: Buffer.from('x') });
  }
  return { db, sender, holder, endpointId, deadEndpointId, someEmailId: newId() };
}

/** @returns bytes of everything in the database */
async function fill({ address }: TestDatabase, stage: Stage, count: number): Promise<number> {
  const client = await connectAsOwner(address, 'fill');
  const owner = clientQueries(client);
  try {
    await makeWeeks(owner, WEEKS);
    const open = count * OPEN_SHARE;
    await fillMail(owner, {
      ...stage,
      count,
      open,
      weeks: WEEKS,
      htmlBytes: HTML_BYTES,
      anew: true,
    });
    await owner.query('checkpoint');
    const [row] = await owner.query<{ bytes: number }>(
      'select pg_database_size(current_database()) as bytes',
    );
    return row?.bytes ?? Number.NaN;
  } finally {
    await client.end();
  }
}

async function someEmail({ db }: TestDatabase, { sender }: Stage, count: number): Promise<string> {
  const [row] = await db.query<{ id: string }>(
    `select email_id as id from recipients where lower(address collate "C") = $1
      and project_id = $2 limit 1`,
    [
      `jo${Math.floor(count / 6)}@customers${(Math.floor(count / 6) * 3) % 10}.test`,
      sender.projectId,
    ],
  );
  return row?.id ?? newId();
}

async function measure(
  { address }: TestDatabase,
  stage: Stage,
  { rounds, hasSnapshot }: { rounds: number; hasSnapshot: boolean },
): Promise<Timings> {
  // Connections of their own: their plans are made on the tables as they are now.
  const db = new Database(address, { role: APP_ROLE, name: 'bench' });
  const reader = await connectAsOwner(address, 'snapshot');
  try {
    if (hasSnapshot) {
      await reader.query('begin isolation level repeatable read; select count(*) from nodes');
      await run(db, stage, { rounds: CHURN_ROUNDS, only: /^(accept|settle|claim)/ });
    }
    await run(db, stage, { rounds: WARM_UP_ROUNDS, only: /./ });
    return await run(db, stage, { rounds, only: /./ });
  } finally {
    await reader.end();
    await db.close();
  }
}

async function run(
  db: Database,
  stage: Stage,
  { rounds, only }: { rounds: number; only: RegExp },
): Promise<Timings> {
  const timings: Timings = new Map();
  for (let round = 0; round < rounds; round += 1) {
    for (const exercise of EXERCISES) {
      const { what } = exercise;
      if (!only.test(what) || LEFT_OUT.includes(what)) continue;
      await exercise.run({ ...stage, db: timingDatabase(db, what, timings) });
    }
  }
  return timings;
}

function table(conditions: readonly Condition[]): string {
  const whats = [...new Set(conditions.flatMap(({ timings }) => [...timings.keys()]))];
  const header = conditions.map(
    ({ emails, hasSnapshot }) =>
      `${emails.toLocaleString('en-US')}${hasSnapshot ? ' + snapshot' : ''}`,
  );
  const rows = whats.map((what) => {
    const [small = NaN, smallHeld = NaN, large = NaN, largeHeld = NaN] = conditions.map(
      ({ timings }) => median(timings.get(what) ?? []),
    );
    const cells = [small, smallHeld, large, largeHeld].map(show);
    return [what, ...cells, `${show(large / small)} ×`, `${show(largeHeld / smallHeld)} ×`];
  });
  return alignColumns([['ms, medians', ...header, 'ratio', 'ratio + snapshot'], ...rows]);
}
