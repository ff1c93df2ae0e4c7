/**
 * `npm run bench -- scale`: measures the statements of the service with ten thousand stored emails and with ten
 * million, without and with an old snapshot that stays open, as during a backup. It counts milliseconds and touched
 * database pages. SQL fills the tables. The statements are those of the service. They run one after the other, on
 * connections of the service (test/support/statements.ts).
 */
import { explainingDatabase } from '../test/support/explaining.ts';
import { fillMail, makeWeeks } from '../test/support/fill.ts';
import { newSender, type Sender } from '../test/support/mail-store.ts';
import { testDatabase, type TestDatabase } from '../test/support/postgres.ts';
import { type Exercise, EXERCISES, type Stage } from '../test/support/statements.ts';
import { APP_ROLE, clientQueries, connectAsOwner, Database } from '../src/database/database.ts';
import { firstUuidAt, newId } from '../src/database/ids.ts';
import { registerWorker } from '../src/delivery/queue/worker-store.ts';
import { WEEK_MS } from '../src/database/partitions.ts';
import { removeOldPartitions } from '../src/retention/week-removal-store.ts';
import { createEndpoint } from '../src/webhooks/endpoint-store.ts';
import { median, show } from './numbers.ts';
import { alignColumns } from './report.ts';
import { type Costs, countPages, timeExercise } from './scale-timing.ts';

export type ScaleOptions = { emails: number; rounds: number };

const SMALL = 10_000;
/** Weeks that metadata is kept: twelve and the current one. */
const WEEKS = 12;
const OPEN_SHARE = 0.1;
const HTML_BYTES = 100;
const WARM_UP_ROUNDS = 5;
const PAGES_ROUNDS = 3;
/** Rounds of accepting, claiming and settling while the snapshot is open. The snapshot keeps their dead rows. */
const CHURN_ROUNDS = 150;
/** Exercises that are not timed: those that wait for a timer, and rare ones. */
const LEFT_OUT = ['what became of a batch', 'projects', 'nodes', 'accept beyond the limit'];
/**
 * Maximum rounds by exercise. Retention removes 500 emails each time, and ten thousand emails allow only two rounds.
 */
const ROUNDS_MAX: Record<string, number> = { retention: 2 };
const WEEKS_KEPT = 10;

/** Costs by statement, one for each round. */
type Samples = Map<string, number[]>;
type Condition = { emails: number; hasSnapshot: boolean; ms: Samples; pages: Samples };

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
    bytes = await fill(database, stage, { count, say });
    const here = { ...stage, someEmailId: await someEmail(database, stage) };
    for (const hasSnapshot of [false, true]) {
      say(`  statements, ${hasSnapshot ? 'with an old snapshot open' : 'nothing else open'}`);
      const samples = await measure(database, here, { rounds, hasSnapshot, say });
      conditions.push({ emails: count, hasSnapshot, ...samples });
    }
    say('  retention');
    conditions.at(-2)!.ms.set('a week leaves', [await removeWeeks(database)]);
  }
  return [
    table('ms, medians', conditions, ({ ms }) => ms),
    table('pages, medians', conditions, ({ pages }) => pages),
    `${show((bytes / emails) * 1e-3)} GB per million emails with ${HTML_BYTES} bytes of html each.\n`,
  ].join('\n\n');
}

async function setStage({ db }: TestDatabase, sender: Sender): Promise<Stage> {
  const [leaseId, endpointId, deadEndpointId] = [newId(), newId(), newId()];
  await registerWorker(db, { id: leaseId, instance: newId(), host: 'here', pid: 1 });
  for (const id of [endpointId, deadEndpointId]) {
    const endpoint = { id, url: 'https://x.test', events: ['email.bounced' as const] };
    await createEndpoint(db, sender, { ...endpoint, secret: Buffer.from('x') });
  }
  return { db, sender, leaseId, endpointId, deadEndpointId, someEmailId: newId() };
}

/** @returns the size of the database in bytes */
async function fill(
  { address, db }: TestDatabase,
  stage: Stage,
  { count, say }: { count: number; say: (line: string) => void },
): Promise<number> {
  const startedMs = performance.now();
  const took = (): string => `${show((performance.now() - startedMs) / 1000)} s`;
  let reportedTo = 0;
  const onProgress = (emails: number): void => {
    if (emails < reportedTo + count / 10) return;
    reportedTo = emails;
    if (count > SMALL) say(`  ${thousands(emails)} of ${thousands(count)}, in ${took()}`);
  };
  const options = { weeks: WEEKS, htmlBytes: HTML_BYTES, anew: true, onProgress };
  const owner = await connectAsOwner(address, 'fill');
  try {
    await makeWeeks(clientQueries(owner), WEEKS);
    await fillMail(address, { ...stage, ...options, count, open: count * OPEN_SHARE });
    await owner.query('checkpoint');
  } finally {
    await owner.end();
  }
  const size = 'select pg_database_size(current_database()) as bytes';
  const [row] = await db.query<{ bytes: number }>(size);
  const bytes = row?.bytes ?? Number.NaN;
  say(`${thousands(count)} emails: ${show(bytes / 1e9)} GB, in ${took()}`);
  return bytes;
}

function thousands(count: number): string {
  return count.toLocaleString('en-US');
}

/** Returns the id of an email from the middle of the stored weeks. */
async function someEmail({ db }: TestDatabase, { sender }: Stage): Promise<string> {
  const [row] = await db.query<{ id: string }>(
    `select id from emails where project_id = $1 and environment = $2 and id > $3
      order by id limit 1`,
    [sender.projectId, sender.environment, firstUuidAt(Date.now() - (WEEKS / 2) * WEEK_MS)],
  );
  return row?.id ?? newId();
}

type Measuring = { rounds: number; hasSnapshot: boolean; say: (line: string) => void };

async function measure(
  { address }: TestDatabase,
  stage: Stage,
  { rounds, hasSnapshot, say }: Measuring,
): Promise<{ ms: Samples; pages: Samples }> {
  // New connections make their plans for the tables as they are now.
  const db = new Database(address, { role: APP_ROLE, name: 'bench' });
  const here = { ...stage, db };
  const reader = await connectAsOwner(address, 'snapshot');
  try {
    const time = (exercise: Exercise): Promise<Costs> => timeExercise(exercise, here);
    if (hasSnapshot) {
      await reader.query('begin isolation level repeatable read; select count(*) from nodes');
      say('    leaving dead rows');
      await run(time, { rounds: CHURN_ROUNDS, only: /^(accept|settle|claim)/ });
    }
    await run(time, { rounds: WARM_UP_ROUNDS, only: /^(?!retention)/ });
    say('    milliseconds');
    const ms = await run(time, { rounds });
    say('    pages');
    await using explaining = await explainingDatabase(address, APP_ROLE);
    const count = (exercise: Exercise): Promise<Costs> => countPages(exercise, here, explaining);
    return { ms, pages: await run(count, { rounds: PAGES_ROUNDS }) };
  } finally {
    await reader.end();
    await db.close();
  }
}

async function run(
  costsOf: (exercise: Exercise) => Promise<Costs>,
  { rounds, only = /./ }: { rounds: number; only?: RegExp },
): Promise<Samples> {
  const samples: Samples = new Map();
  for (let round = 0; round < rounds; round += 1) {
    for (const exercise of EXERCISES) {
      const { what } = exercise;
      if (!only.test(what) || LEFT_OUT.includes(what)) continue;
      if (round >= (ROUNDS_MAX[what] ?? rounds)) continue;
      for (const [name, cost] of await costsOf(exercise)) {
        samples.set(name, [...(samples.get(name) ?? []), cost]);
      }
    }
  }
  return samples;
}

/** Returns milliseconds for each removed week; NaN: the removal was blocked. */
async function removeWeeks({ address }: TestDatabase): Promise<number> {
  const startedMs = performance.now();
  const kept = { contentH: null, metadataH: WEEKS_KEPT * 7 * 24 };
  const removal = await removeOldPartitions(address, kept).catch(() => null);
  const weeks = removal?.removed.filter((name) => name.startsWith('emails')).length ?? NaN;
  return (performance.now() - startedMs) / weeks;
}

function table(
  title: string,
  conditions: readonly Condition[],
  samplesOf: (condition: Condition) => Samples,
): string {
  const all = conditions.map(samplesOf);
  const whats = [...new Set(all.flatMap((samples) => [...samples.keys()]))];
  const header = conditions.map(
    ({ emails, hasSnapshot }) => `${thousands(emails)}${hasSnapshot ? ' + snapshot' : ''}`,
  );
  const rows = whats.map((what) => {
    const [small = NaN, smallWithSnapshot = NaN, large = NaN, largeWithSnapshot = NaN] = all.map(
      (samples) => median(samples.get(what) ?? []),
    );
    const cells = [small, smallWithSnapshot, large, largeWithSnapshot].map(cell);
    return [what, ...cells, ...[large / small, largeWithSnapshot / smallWithSnapshot].map(ratio)];
  });
  return alignColumns([[title, ...header, 'ratio', 'ratio + snapshot'], ...rows]);
}

function cell(value: number): string {
  return Number.isNaN(value) ? '' : show(value);
}

function ratio(value: number): string {
  return Number.isNaN(value) ? '' : `${show(value)} ×`;
}
