/**
 * `npm run chaos`: injects faults into a running service, ends them, and compares accepted requests with their effects.
 * README.md has the order in which to read the files.
 */
import { FailpointPlan } from './faults/armed-failpoints.ts';
import { randomFor } from './random.ts';
import { Director } from './director.ts';
import { drain } from './drain.ts';
import { countDuplicates } from './ledger/duplicates.ts';
import { gather } from './ledger/evidence.ts';
import { groupBy } from './ledger/group-by.ts';
import { stepClockBack } from './faults/clock-step.ts';
import { compare } from './ledger/ledger.ts';
import type { Evidence, Finding } from './ledger/ledger-types.ts';
import { type ChaosOptions, HELP, readOptions } from './options.ts';
import { titleOf } from './faults/failpoints.ts';
import type { PointLine, PointsFor } from './node.ts';
import { rewindDatabase } from './faults/lossy-failover.ts';
import { excuse, isOfLostEmail, type Rewind } from './ledger/excused.ts';
import { NODES, openStage, type Stage } from './stage.ts';

/** Limit on the findings of each kind that are printed. */
const FINDINGS_SHOWN_MAX = 12;

const begunMs = performance.now();

async function main(): Promise<number> {
  const options = readOptions(process.argv.slice(2));
  if (options === 'help') {
    process.stdout.write(HELP);
    return 0;
  }
  if ('problem' in options) {
    process.stderr.write(`chaos: ${options.problem}\n`);
    return 2;
  }
  const interrupted = untilInterrupted();
  log(`seed ${options.seed}`);
  try {
    const { line, isGood } = await runChaos(options, interrupted);
    process.stdout.write(`${line}\n`);
    return isGood ? 0 : 1;
  } catch (error) {
    if (isInterrupted) {
      process.stderr.write('chaos: interrupted\n');
      return 130;
    }
    process.stderr.write(`${(error as Error).stack}\n`);
    process.stdout.write(`chaos: seed ${options.seed}: ${(error as Error).message}: FAIL\n`);
    return 1;
  }
}

function log(line: string): void {
  const atS = ((performance.now() - begunMs) / 1_000).toFixed(1).padStart(6);
  process.stderr.write(`${atS} s  ${line}\n`);
}

async function runChaos(
  options: ChaosOptions,
  interrupted: Promise<never>,
): Promise<{ line: string; isGood: boolean }> {
  const plan = new FailpointPlan(
    NODES,
    randomFor(options.seed, 'points'),
    options.minutes !== null,
  );
  const onPoint = ({ failpoint, action, pid }: PointLine): void => {
    if (!plan.hit(failpoint, action)) return;
    const where = pid === undefined ? '' : ` (process ${pid})`;
    log(`failpoint ${titleOf(failpoint, action)}${where}, ${plan.unhit.size} to go`);
  };
  const pointsFor: PointsFor = (node, starts) => plan.pointsFor(node, starts);
  await using stage = await openStage({ onLine: log, onPoint }, pointsFor);
  const director = new Director(options, { stage, plan, log });
  let rewind: Rewind | null;
  try {
    rewind = await Promise.race([interrupted, runCourse(director, stage)]);
  } finally {
    await director.giveUp();
    await Promise.all(stage.nodes.map((node) => node.release()));
  }
  const gathered = await gather(stage, director);
  const { evidence, lost, repeated } =
    rewind === null ? { evidence: gathered, lost: NONE, repeated: 0 } : excuse(gathered, rewind);
  const findings = [
    ...compare(evidence),
    ...findingsOf(stage, { plan, lost }),
    ...director.context.findings,
  ];
  const failover = 'a fail-over that loses commits';
  if (lost.size === 0) findings.push({ kind: 'fault_not_exercised', what: failover });
  for (const [kind, ones] of groupBy(findings, (one) => one.kind)) {
    log(`${ones.length} times ${kind}:`);
    for (const { what } of ones.slice(0, FINDINGS_SHOWN_MAX)) log(`  ${what}`);
  }
  const isGood = findings.length === 0;
  const result = { evidence, director, plan, stage, findings, lost: lost.size, repeated };
  return { line: lineOf(options, result), isGood };
}

/** @returns the time in which commits were lost; null: the queue did not drain before the fail-over */
async function runCourse(director: Director, stage: Stage): Promise<Rewind | null> {
  await director.run();
  log(`healing, ${director.load.accepted} emails accepted`);
  await director.heal();
  director.context.findings.push(...(await stepClockBack(stage, { log })));
  log('draining');
  if (!(await drain(stage, { log, restart: () => director.restartAll() }))) return null;
  await director.finishReading();
  const rewind = await rewindDatabase(stage, { load: director.load, log });
  await drain(stage, { log, restart: null });
  return rewind;
}

const NONE: ReadonlySet<string> = new Set();

type Suspected = { plan: FailpointPlan; lost: ReadonlySet<string> };

/** Returns findings that no comparison shows: failpoints and faults without an effect, and crashed processes. */
function findingsOf(stage: Stage, { plan, lost }: Suspected): Finding[] {
  return [
    ...[...plan.unhit].map((what): Finding => ({ kind: 'failpoint_not_hit', what })),
    ...stage.receivers
      .unexercised()
      .map((what): Finding => ({ kind: 'fault_not_exercised', what })),
    ...stage.nodes.flatMap(({ name, crashes }) =>
      crashes
        .filter((line) => !isOfLostEmail(line, lost))
        .map((line): Finding => ({ kind: 'broken_process', what: `${name}: ${line}` })),
    ),
  ];
}

type Result = {
  evidence: Evidence;
  director: Director;
  plan: FailpointPlan;
  stage: Stage;
  findings: Finding[];
  /** Emails that the fail-over lost, and copies that it repeated. */
  lost: number;
  repeated: number;
};

function lineOf(
  { seed }: ChaosOptions,
  { evidence, director, plan, stage, findings, lost, repeated }: Result,
): string {
  const { emails, recipients, copies, events, disturbances } = evidence;
  const { extra, inDoubt, atDisturbances } = countDuplicates(evidence);
  const count = (number: number, what: string): string => `${number.toLocaleString('en')} ${what}`;
  const facts = [
    count(director.load.accepted, 'accepted'),
    count(emails.length, 'stored'),
    count(recipients.length, 'recipients'),
    count(copies.length, 'copies'),
    `${count(extra, 'duplicates')} (${inDoubt} in doubt, ${atDisturbances} at kills)`,
    count(events.length, 'events'),
    count(stage.hooks.count(), 'webhooks'),
    count(evidence.cancels.length, 'canceled'),
    count(new Set(evidence.requests.flatMap(({ batch }) => batch ?? [])).size, 'batches'),
    count(director.streamed, 'events streamed'),
    count(director.attacker.answered, 'responses to the attacker'),
    count(disturbances.length, 'disturbances'),
    `${lost} lost and ${repeated} repeated by the fail-over`,
    `${plan.total - plan.unhit.size}/${plan.total} failpoints`,
    `${Math.round((performance.now() - begunMs) / 1_000)} s`,
  ];
  const verdict = findings.length === 0 ? 'PASS' : `FAIL (${findings.length}): ${shown(findings)}`;
  return `chaos: seed ${seed}: ${facts.join(', ')}: ${verdict}`;
}

function shown(findings: readonly Finding[]): string {
  const some = findings.slice(0, 5).map(({ kind, what }) => `${kind} ${what}`);
  return some.join('; ').slice(0, 1_000);
}

let isInterrupted = false;

/**
 * Returns a promise that rejects at the first signal that asks the run to end. Ctrl-C also ends the services
 * (test/support/service-process.ts). The run then stops its processes, as after any failure. A second Ctrl-C ends the
 * run at once.
 */
function untilInterrupted(): Promise<never> {
  const { promise, reject } = Promise.withResolvers<never>();
  promise.catch(() => {});
  let count = 0;
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.on(signal, () => {
      isInterrupted = true;
      count += 1;
      reject(new Error(`interrupted by ${signal}`));
      // The harness repeats the first signal, for programs that have no handler.
      if (count > 2) process.exit(130);
    });
  }
  return promise;
}

// Faults that are still under way after an interruption would otherwise act on ended processes.
process.exit(await main());
